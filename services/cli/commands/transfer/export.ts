// `fleet export`: whole tasks as JSON Lines, with their audit trails and all versions, and the offline proof of such a file.

import { type Command, Option } from "commander";
import { ERROR_TABLE, FleetError } from "../../../../shared/protocol/errors.ts";
import {
  EXPORT_FORMAT,
  type ExportLine,
  type ExportScope,
} from "../../../../shared/protocol/export-lines.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import { parseMoment } from "../../input/moment.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import type { ExportSink } from "./export-file.ts";

interface Flags {
  readonly task?: readonly string[];
  readonly all?: boolean;
  readonly since?: string;
  readonly out?: string;
  readonly resume?: boolean;
  readonly artifacts: boolean;
}

export function addExport(program: Command, action: ActionFactory): void {
  const command = program
    .command("export")
    .summary("Write whole tasks to a file, or verify such a file.")
    .description(
      "Write whole tasks as JSON Lines: every version of their checkpoints, the artifacts that these reference, their audit trails and handoffs, and the sorties, locks and messages of missions. The file is in a documented format and can be verified without a fleet.",
    )
    .option("-t, --task <id...>", "these tasks")
    .addOption(new Option("--all", "all tasks of the tenant").conflicts("task"))
    .addOption(
      new Option("--since <time>", "all tasks that changed since: 2h, 7d, 2026-01-04").conflicts("task"),
    )
    .option("-o, --out <file>", "write to a new private file, not to standard output")
    .option("--no-artifacts", "leave out the bytes of artifacts: the target must have them before an import")
    .addOption(
      new Option("--resume", "continue the interrupted file of --out").conflicts(["task", "all", "since"]),
    )
    .action(action(exportTasks));
  withExamples(command, (fleet) => ({
    "One task": `${fleet} export --task auth --out auth.jsonl`,
    "Everything, also after an interruption": `${fleet} export --all --out tenant.jsonl || ${fleet} export --resume --out tenant.jsonl`,
    Compressed: `${fleet} export --since 7d | gzip > week.jsonl.gz`,
    "Prove a file without a fleet": `${fleet} export verify tenant.jsonl`,
  }));
  const verifyCommand = command
    .command("verify")
    .description(
      "Verify an export file without a fleet: every hash, the audit chains and the states that they lead to (exit 8: it is damaged, or it lacks what the fleet could not read).",
    )
    .argument("<file>", "the file")
    .action(action(verify));
  withExamples(verifyCommand, (fleet) => ({
    "In a nightly job": `${fleet} export verify tenant.jsonl --json > report.json`,
  }));
}

async function exportTasks(session: Session, flags: Flags): Promise<void> {
  const { isWholeExport, renderExport } = await import("../../rendering/transfer/export.ts");
  const scope = scopeOf(session, flags);
  if (scope !== null) await requireSource(session, scope);
  const sink = await openSink(session, flags);
  try {
    if (!sink.verifier.isComplete) await fill(session, sink, { scope, artifacts: flags.artifacts });
  } catch (error) {
    await endInterrupted(session, sink, flags);
    throw error;
  } finally {
    await sink.close();
  }
  const { summary } = sink.verifier;
  const { lost, unreadable, artifacts_lost, records_lost } = summary;
  if (!isWholeExport(summary)) {
    session.exitCode = ERROR_TABLE.CORRUPT.exit;
    const text = "the fleet could not read everything";
    session.warn({
      code: "EXPORT_INCOMPLETE",
      text,
      details: {
        versions: lost,
        tasks: unreadable,
        artifacts: artifacts_lost,
        records: records_lost,
        signatures: summary.signature_problems,
        unread_signatures: summary.signatures_unread,
      },
    });
  }
  if (flags.out === undefined) return;
  await session.show({ file: flags.out, complete: isWholeExport(summary), ...summary }, () =>
    renderExport(flags.out as string, summary, { view: session.view, fleet: session.programName }),
  );
}

/** A fleet that is down, or lacks a task, is found before the file is created. */
async function requireSource(session: Session, { tasks }: ExportScope): Promise<void> {
  const { requireTask } = await import("../../runtime/existing-task.ts");
  for (const task of tasks ?? []) await requireTask(session, task);
  if (tasks === null) await (await session.client()).admin.tasks({ ...session.deadline, limit: 1 });
}

/** A new file without a whole task is removed, so that the same call can be repeated. Any other is continued. */
async function endInterrupted(
  session: Session,
  { verifier }: ExportSink,
  { out, resume }: Flags,
): Promise<void> {
  if (out === undefined) return;
  if (resume !== true && verifier.done.size === 0) {
    const { rm } = await import("node:fs/promises");
    return rm(out, { force: true });
  }
  session.warn({
    code: "EXPORT_INTERRUPTED",
    text: `the file is not complete; continue with \`${session.programName} export --resume --out ${out}\``,
    details: { tasks: verifier.done.size },
  });
}

/** null: the file to continue has the scope. */
function scopeOf(session: Session, { task, all, since, resume, out }: Flags): ExportScope | null {
  if (resume === true) {
    if (out === undefined)
      throw new UsageError("--resume needs a file", "Name the interrupted file with --out.");
    return null;
  }
  if (task !== undefined) return { tasks: [...new Set(task)].sort(), since: null };
  if (since === undefined) {
    if (all === true) return { tasks: null, since: null };
    throw new UsageError("no tasks are named", "Give --task, --all or --since.");
  }
  const moment = parseMoment(since, session.context.now());
  if (moment !== undefined) return { tasks: null, since: moment };
  throw new UsageError(`--since: ${since} is no time`, "Write a duration such as 2h or 7d, or a date.");
}

async function openSink(session: Session, { out, resume }: Flags): Promise<ExportSink> {
  const { createFile, resumeFile, standardOutput } = await import("./export-file.ts");
  if (out === undefined) return standardOutput(session.context.stdout);
  return resume === true ? await resumeFile(out) : await createFile(out);
}

interface Extent {
  /** null: that in the header of the file. */
  readonly scope: ExportScope | null;
  readonly artifacts: boolean;
}

/** Writes what the file lacks. */
async function fill(session: Session, sink: ExportSink, extent: Extent): Promise<void> {
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
  { scope, artifacts }: Extent,
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
    if (header.fleet === fleet && header.tenant === client.tenant) return header.scope;
    throw new FleetError("CONFLICT", "the file is of another fleet or tenant", {
      details: { file_fleet: header.fleet, file_tenant: header.tenant, fleet, tenant: client.tenant },
    });
  }
  if (scope === null)
    throw new UsageError("the file holds no export", "Remove it, and start again without --resume.");
  await sink.add({
    kind: "header",
    format: EXPORT_FORMAT,
    fleet,
    tenant: client.tenant,
    by: client.agentId,
    tool: packageVersion(),
    exported_at: new Date(session.context.now()).toISOString(),
    scope,
    artifacts,
  });
  return scope;
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

async function verify(session: Session, path: string): Promise<void> {
  const { readExport } = await import("./export-file.ts");
  const { ExportFault } = await import("../../../../shared/transfer/export-line.ts");
  const { isWholeExport, renderExport, renderFault } = await import("../../rendering/transfer/export.ts");
  try {
    const { summary } = await readExport(path);
    if (!isWholeExport(summary)) session.exitCode = ERROR_TABLE.CORRUPT.exit;
    await session.show({ file: path, ok: true, complete: isWholeExport(summary), ...summary }, () =>
      renderExport(path, summary, { view: session.view, fleet: session.programName }),
    );
  } catch (error) {
    if (!(error instanceof ExportFault)) throw error;
    const { line, problem } = error;
    session.exitCode = ERROR_TABLE.CORRUPT.exit;
    await session.show({ file: path, ok: false, line, problem }, () =>
      renderFault(path, error, session.view),
    );
  }
}
