// Writes the tasks of a lost store again, from the files of the mirror. Every file is verified against the audit trail beside it, and every task
// compared with the fleet, before the first one is written. Each task is an import, so a repeated call continues an interrupted one.

import type { MirrorFolder } from "../../../../shared/mirror/folder.ts";
import type { MirroredTask } from "../../../../shared/mirror/place.ts";
import {
  type MirroredTrail,
  type RestorableTask,
  readMirroredTrail,
  readRestorable,
  readRestorableTask,
} from "../../../../shared/mirror/restorable.ts";
import { mirrorFolderAt } from "../../../../shared/mirror/tool-folder.ts";
import { ERROR_TABLE, FleetError } from "../../../../shared/protocol/errors.ts";
import type { FleetClient, Task } from "../../../../shared/sdk/sdk.ts";
import { PROGRESS_END } from "../../rendering/terminal/progress.ts";
import type { Session } from "../../runtime/session.ts";

/** A task that the files cannot restore, or not whole. */
export interface RestorationFinding {
  readonly task_id: string;
  /** null: it concerns the whole task, which was left out. */
  readonly checkpoint_id: string | null;
  readonly problem: string;
  /** What the fleet lacks: when these files are stored, a repeated call restores the task. */
  readonly lost_artifacts?: readonly string[];
}

export interface RestorationReport {
  readonly folder: string;
  readonly restored: readonly string[];
  /** An earlier restoration was interrupted, and is complete now. */
  readonly continued: readonly string[];
  /** Restored from these files before. */
  readonly identical: readonly string[];
  /** Tasks of the fleet whose files are copies of what it has. */
  readonly present: number;
  /** The fleet has newer tasks with these names, which stay as they are. */
  readonly kept: readonly string[];
  readonly checkpoints: number;
  readonly missions: readonly string[];
  readonly findings: readonly RestorationFinding[];
  readonly dry_run: boolean;
}

export interface RestorationFlags {
  readonly task?: readonly string[];
  readonly dryRun?: boolean;
}

interface Plan {
  readonly kind: "restore" | "continue" | "identical" | "present" | "kept" | "unusable";
  readonly place: MirroredTask;
  readonly trail: MirroredTrail | null;
  readonly findings: readonly RestorationFinding[];
}

export async function restoreFromMirror(
  session: Session,
  path: string,
  flags: RestorationFlags,
): Promise<RestorationReport> {
  const folder = mirrorFolderAt(path, session.context.env);
  const client = await session.client();
  const plans: Plan[] = [];
  try {
    for (const place of await wantedPlaces(folder, client.tenant, flags.task)) {
      session.progress(`${PROGRESS_END}Verifying the files of ${place.task} (${plans.length} tasks done)`);
      plans.push(await planOf(session, folder, place));
    }
    const named = (kind: Plan["kind"]) =>
      plans.filter((plan) => plan.kind === kind).map(({ place }) => place.task);
    const written = { checkpoints: 0, missions: [] as string[] };
    for (const plan of plans) {
      if (flags.dryRun === true || plan.trail === null) continue;
      if (plan.kind === "restore" || plan.kind === "continue")
        written.checkpoints += await restoreTask(session, folder, plan.place, plan.trail);
      else if (plan.kind !== "identical") continue;
      if (plan.trail.mission !== null && (await restoreMission(session, folder, plan.place, plan.trail)))
        written.missions.push(plan.place.task);
    }
    const findings = plans.flatMap((plan) => plan.findings);
    if (findings.length > 0) session.exitCode = ERROR_TABLE.CORRUPT.exit;
    return {
      folder: path,
      restored: named("restore"),
      continued: named("continue"),
      identical: named("identical"),
      present: named("present").length,
      kept: named("kept"),
      ...written,
      findings,
      dry_run: flags.dryRun === true,
    };
  } finally {
    session.progress(PROGRESS_END);
  }
}

/** Throws NOT_FOUND for a named task without files. */
async function wantedPlaces(
  folder: MirrorFolder,
  tenant: string,
  named: readonly string[] | undefined,
): Promise<MirroredTask[]> {
  const places: MirroredTask[] = [];
  for await (const place of folder.tasks()) if (place.tenant === tenant) places.push(place);
  if (named === undefined) return places;
  const missing = named.find((id) => !places.some(({ task }) => task === id));
  if (missing !== undefined)
    throw new FleetError("NOT_FOUND", "the mirror has no such task", { details: { task_id: missing } });
  return places.filter(({ task }) => named.includes(task));
}

async function planOf(session: Session, folder: MirrorFolder, place: MirroredTask): Promise<Plan> {
  const client = await session.client();
  const known = await client.getTask(place.task, session.deadline);
  const trail = await trailOf(folder, place, known);
  if (typeof trail === "string") {
    if (known !== null) return { kind: "kept", place, trail: null, findings: [] };
    return unusable(place, trail);
  }
  if (known !== null && known.origin?.audit_hash !== trail.hash) {
    const isOwn =
      (await isOwnTrail(session, place.task, known, trail)) && !(await hasLost(folder, place, known));
    return { kind: isOwn ? "present" : "kept", place, trail, findings: [] };
  }
  if (known?.origin?.complete === true) return { kind: "identical", place, trail, findings: [] };
  const task = await readRestorableTask(folder, place, trail);
  if (known !== null && known.origin?.digest !== task.digest)
    return unusable(place, "its files changed after its restoration was interrupted");
  const lost = await lostArtifacts(client, task, session.deadline);
  if (lost.length > 0) return unusable(place, `the fleet lacks ${lost.length} of its artifacts`, lost);
  const about = (ids: readonly string[], problem: string) =>
    ids.map((id) => ({ task_id: place.task, checkpoint_id: id, problem }));
  const findings = [
    ...about(task.missing, "its file is missing"),
    ...about(task.damaged, "its file is damaged, or not in the audit trail"),
  ];
  return { kind: known === null ? "restore" : "continue", place, trail, findings };
}

function unusable(place: MirroredTask, problem: string, lost?: readonly string[]): Plan {
  const artifacts = lost === undefined ? {} : { lost_artifacts: lost };
  const findings = [{ task_id: place.task, checkpoint_id: null, problem, ...artifacts }];
  return { kind: "unusable", place, trail: null, findings };
}

/** The mirror sets the trail aside when the first entry of the restored task follows it. */
async function trailOf(
  folder: MirrorFolder,
  place: MirroredTask,
  known: Task | null,
): Promise<MirroredTrail | string> {
  const hash = known?.origin?.source === "mirror" ? known.origin.audit_hash : null;
  if (hash !== null) {
    const aside = await readMirroredTrail(folder.earlierAudit(place, hash));
    if (typeof aside !== "string" && aside.hash === hash) return aside;
  }
  return readMirroredTrail(folder.audit(place));
}

/** Whether the fleet's own trail has the end of the one in the mirror. */
async function isOwnTrail(
  session: Session,
  taskId: string,
  known: Task,
  { seq, last }: MirroredTrail,
): Promise<boolean> {
  if (known.audit_seq < seq) return false;
  const client = await session.client();
  const { entries } = await client.getAudit(taskId, { ...session.deadline, fromSeq: seq, limit: 1 });
  return entries[0]?.entry === last;
}

/** Whether the folder has the trail of another task with this name, which a lost store had. */
async function hasLost(folder: MirrorFolder, place: MirroredTask, { origin }: Task): Promise<boolean> {
  const earlier = await folder.earlierAudits(place);
  return earlier.some((hash) => origin === null || !origin.audit_hash.startsWith(hash));
}

async function lostArtifacts(
  client: FleetClient,
  { versions }: RestorableTask,
  deadline: Session["deadline"],
): Promise<string[]> {
  const lost: string[] = [];
  for (const sha256 of new Set(versions.flatMap(({ artifacts }) => artifacts)))
    if ((await client.artifacts.stat(sha256, deadline)) === null) lost.push(sha256);
  return lost;
}

/** Returns the number of checkpoints that were written. */
async function restoreTask(
  session: Session,
  folder: MirrorFolder,
  place: MirroredTask,
  trail: MirroredTrail,
): Promise<number> {
  const client = await session.client();
  const { admin } = client;
  const { task: id, tenant } = place;
  const { versions, digest, lastSuccessfulId } = await readRestorableTask(folder, place, trail);
  const known = await client.getTask(id, session.deadline);
  if (known === null) {
    const { fence, seq: audit_seq, hash: audit_hash } = trail;
    const origin = { fleet: null, tenant, fence, audit_seq, audit_hash, digest, versions: versions.length };
    await admin.beginImport(id, { ...origin, source: "mirror" }, session.deadline);
  }
  const done = known?.origin?.imported ?? 0;
  for (const [index, version] of versions.entries()) {
    if (index < done) continue;
    session.progress(`${PROGRESS_END}Restoring ${id}: checkpoint ${index + 1} of ${versions.length}`);
    const checkpoint = await readRestorable(folder, place, version);
    if (checkpoint === null) throw changedFile(id, version.id);
    await admin.importVersion(id, { index, hash: version.hash, checkpoint }, session.deadline);
  }
  const { state } = trail;
  const ended = state === "completed" || state === "failed" || state === "cancelled";
  const end = { state: ended ? state : "active", last_successful_id: lastSuccessfulId } as const;
  await admin.endImport(id, end, session.deadline);
  return versions.length - done;
}

function changedFile(taskId: string, checkpointId: string): FleetError {
  return new FleetError("CORRUPT", "a file of the mirror was changed during the restoration; repeat it", {
    details: { task_id: taskId, checkpoint_id: checkpointId },
  });
}

/**
 * A mission that was active begins again, and its sorties come back from its newest checkpoint. One that had ended needs no record: its
 * checkpoints show it. Returns whether anything was done.
 */
async function restoreMission(
  session: Session,
  folder: MirrorFolder,
  place: MirroredTask,
  trail: MirroredTrail,
): Promise<boolean> {
  const { mission: status } = trail;
  if (status !== "pending" && status !== "in_progress") return false;
  const client = await session.client();
  const mission = client.mission(place.task);
  const { goal, agentType } = await readRestorableTask(folder, place, trail);
  const known = await mission.state(session.deadline);
  if (known === null) {
    const about = { title: goal ?? place.task, ...(agentType !== null && { agentType }) };
    await mission.start({ ...about, status }, session.deadline);
  }
  const isWhole = known !== null && Object.values(known.sorties).some((count) => count > 0);
  if (isWhole) return false;
  try {
    await mission.resume(session.deadline);
    return true;
  } catch (error) {
    // The mission had no checkpoint yet, so nothing of its sorties is in the files.
    if (!(error instanceof FleetError) || error.code !== "NOT_FOUND") throw error;
    return known === null;
  }
}
