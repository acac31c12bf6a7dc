// What an export reads from the fleet, line after line: the header, the tasks of its scope with their artifacts, and the trailer.

import { FleetError, isStoreFull } from "../../../../shared/protocol/errors.ts";
import {
  EXPORT_FORMAT,
  type ExportLine,
  type ExportLineOf,
  type ExportScope,
} from "../../../../shared/protocol/export-lines.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import type { ExportSink } from "./export-file.ts";

export interface ExportExtent {
  /** null: that in the header of the file. */
  readonly scope: ExportScope | null;
  readonly artifacts: boolean;
  /** Whether it has a seal, which is an entry too: nothing is read if the fleet cannot record it. */
  readonly isSealed?: boolean;
}

/** Writes what the file lacks. */
export async function fillExport(session: Session, sink: ExportSink, extent: ExportExtent): Promise<void> {
  const { KnownKeys } = await import("../../../../shared/sdk/sdk.ts");
  const { taskLines } = await import("./task-lines.ts");
  const { PROGRESS_END } = await import("../../rendering/terminal/progress.ts");
  const client = await session.client();
  const keys = new KnownKeys(() => client.admin.signingKeys(session.deadline));
  const { tasks, since } = await headed(session, sink, extent);
  try {
    // An interrupted file may lack those of its last task.
    await addArtifacts(session, sink);
    for await (const taskId of tasks === null ? changedTasks(session, since) : tasks) {
      if (sink.verifier.done.has(taskId)) continue;
      session.progress(`${PROGRESS_END}Exporting task ${sink.verifier.done.size + 1}: ${taskId}`);
      await addTask(sink, taskId, taskLines(client, taskId, { ...session.deadline, keys }));
      await addArtifacts(session, sink);
    }
  } finally {
    session.progress(PROGRESS_END);
  }
  await sink.add(sink.verifier.trailer());
}

/** Writes the header, or compares that of an interrupted file with the fleet. Returns the tasks of the file. */
async function headed(
  session: Session,
  sink: ExportSink,
  { scope, artifacts, isSealed = false }: ExportExtent,
): Promise<ExportScope> {
  const { headerOf } = await import("./export-file.ts");
  const { packageVersion } = await import("../../../../shared/runtime/process/installation.ts");
  const client = await session.client();
  const fleet = client.fleetId ?? null;
  const header = headerOf(sink);
  if (header !== null) {
    if (header.format !== EXPORT_FORMAT)
      throw new UsageError(
        `the file has format ${header.format}, and this program writes format ${EXPORT_FORMAT}`,
        "Remove it, and start again without --resume.",
      );
    if (header.fleet === fleet && header.tenant === client.tenant) {
      await recordBegin(session, header, { isSealed });
      return header.scope;
    }
    throw new FleetError("CONFLICT", "the file is of another fleet or tenant", {
      details: { file_fleet: header.fleet, file_tenant: header.tenant, fleet, tenant: client.tenant },
    });
  }
  if (scope === null)
    throw new UsageError("the file holds no export", "Remove it, and start again without --resume.");
  const begun: ExportLineOf<"header"> = {
    kind: "header",
    format: EXPORT_FORMAT,
    fleet,
    tenant: client.tenant,
    by: client.agentId,
    tool: packageVersion(),
    exported_at: new Date(session.context.now()).toISOString(),
    scope,
    artifacts,
  };
  await recordBegin(session, begun, { isSealed });
  await sink.add(begun);
  return scope;
}

/**
 * The right to export is asked before any content is read, also to continue a file: the bus refuses the request of a role without the right. The
 * entry names the file by its first line. A damaged chain of the tenant takes no entry, nor does a store whose disk is full, and neither must keep an
 * operator from saving what can be read.
 */
async function recordBegin(
  session: Session,
  header: ExportLineOf<"header">,
  { isSealed }: { readonly isSealed: boolean },
): Promise<void> {
  const { createHash } = await import("node:crypto");
  const { exportLineText } = await import("../../../../shared/transfer/export-line.ts");
  const manifest = createHash("sha256").update(exportLineText(header)).digest("hex");
  const { admin, tenant } = await session.client();
  const tasks = header.scope.tasks?.length ?? 0;
  try {
    await admin.recordExport({ ...session.deadline, manifest, tasks, entries: 0, phase: "begin" });
  } catch (error) {
    const obstacle = error instanceof FleetError && !isSealed ? obstacleOf(error) : null;
    if (obstacle === null) throw error;
    session.warn({
      code: "EXPORT_UNRECORDED",
      text: `the audit chain of the tenant does not record this export: ${obstacle}`,
      details: { tenant },
    });
  }
}

/** Why the chain takes no entry. null: it may take one. */
function obstacleOf(error: FleetError): string | null {
  if (error.code === "CORRUPT") return "it is damaged";
  return isStoreFull(error) ? "the disk of the store is full" : null;
}

/** The artifacts that the tasks of the file reference, and that it lacks. */
async function addArtifacts(session: Session, sink: ExportSink): Promise<void> {
  const { artifactLines } = await import("./artifact-lines.ts");
  const { PROGRESS_END } = await import("../../rendering/terminal/progress.ts");
  const client = await session.client();
  for (const [sha256, size] of [...sink.verifier.missingArtifacts]) {
    session.progress(`${PROGRESS_END}Exporting artifact ${sha256}`);
    for await (const line of artifactLines(client, sha256, size)) await sink.add(line);
  }
}

/** Tasks by name, those with damaged heads too. `since` null: all. */
async function* changedTasks(session: Session, since: string | null): AsyncGenerator<string> {
  const { admin } = await session.client();
  const isMeant = ({ updated_at }: Pick<Task, "updated_at">): boolean =>
    since === null || Date.parse(updated_at) >= Date.parse(since);
  for (let cursor: string | undefined; ; ) {
    const page = await admin.tasks({ ...session.deadline, cursor, limit: LIMITS.tasks_limit_max });
    yield* page.corrupt;
    for (const task of page.tasks) if (isMeant(task)) yield task.task_id;
    cursor = page.cursor;
    if (cursor === undefined) return;
  }
}

/** A fleet that is down, or lacks a task, is found before the file is created. */
export async function requireSource(session: Session, { tasks }: ExportScope): Promise<void> {
  const { requireTask } = await import("../../runtime/existing-task.ts");
  for (const task of tasks ?? []) await requireTask(session, task);
  if (tasks === null) await (await session.client()).admin.tasks({ ...session.deadline, limit: 1 });
}

async function addTask(sink: ExportSink, taskId: string, lines: AsyncIterable<ExportLine>): Promise<void> {
  const { createHash } = await import("node:crypto");
  const { exportLineText } = await import("../../../../shared/transfer/export-line.ts");
  const { isImportUnfinished } = await import("./task-lines.ts");
  const digest = createHash("sha256");
  const counts = { audit: 0, checkpoint: 0, lost: 0, record: 0, record_lost: 0, handoff: 0 };
  let isBegun = false;
  try {
    for await (const line of lines) {
      await sink.add(line);
      isBegun = true;
      digest.update(`${exportLineText(line)}\n`);
      if (line.kind in counts) counts[line.kind as keyof typeof counts] += 1;
    }
  } catch (error) {
    if (isBegun || !(error instanceof FleetError)) throw error;
    // A task whose head is damaged has no trail that could be trusted.
    if (error.code !== "CORRUPT" && !isImportUnfinished(error)) throw error;
    return sink.add({ kind: "unreadable", task_id: taskId, reason: error.message });
  }
  const { audit: entries, checkpoint: versions, lost, handoff: handoffs } = counts;
  const { record: records, record_lost: records_lost } = counts;
  const ofMission = records + records_lost > 0 && { records, records_lost };
  const end = { entries, versions, lost, ...ofMission, handoffs, digest: digest.digest("hex") };
  await sink.add({ kind: "task_end", task_id: taskId, ...end });
}
