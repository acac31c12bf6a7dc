// Compares the files of a tenant with what the fleet answers. The mirror follows the fleet, so a difference counts only if it lasts.

import { setTimeout as sleep } from "node:timers/promises";
import type { MirrorFolder } from "../../../../shared/mirror/folder.ts";
import { mirrorFolderAt } from "../../../../shared/mirror/tool-folder.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { PROGRESS_END } from "../../rendering/terminal/progress.ts";
import type { Session } from "../../runtime/session.ts";

export interface MirrorFinding {
  readonly task_id: string;
  readonly checkpoint_id: string;
  /** Damaged: not readable, or another version or checkpoint than the fleet has. Surplus: the fleet has no such checkpoint, or removed it. */
  readonly problem: "missing" | "damaged" | "surplus";
}

export interface MirrorReport {
  readonly folder: string;
  readonly tasks: number;
  /** Whole files of the current versions. */
  readonly files: number;
  readonly findings: readonly MirrorFinding[];
  /** Checkpoints that the fleet cannot read, whose files were not compared. */
  readonly corrupt: number;
}

type OfTask = Pick<MirrorReport, "files" | "findings" | "corrupt">;

/** A lag that is longer than that, and than --timeout, is a finding too. */
const LAG_MS_MAX = 5_000;
const PAUSE_MS = 200;

export async function compareMirror(session: Session, folder: string): Promise<MirrorReport> {
  const mirror = mirrorFolderAt(folder, session.context.env);
  const { tenant } = await session.client();
  const tasks = new Set<string>();
  const report = { files: 0, findings: [] as MirrorFinding[], corrupt: 0 };
  try {
    for await (const taskId of tasksOf(session)) {
      tasks.add(taskId);
      session.progress(`${PROGRESS_END}Comparing task ${tasks.size}: ${taskId}`);
      const { files, findings, corrupt } = await lastingDifference(session, mirror, taskId);
      report.files += files;
      report.corrupt += corrupt;
      report.findings.push(...findings);
    }
    for await (const place of mirror.tasks())
      if (place.tenant === tenant && !tasks.has(place.task))
        report.findings.push(...(await lastingDifference(session, mirror, place.task)).findings);
  } finally {
    session.progress(PROGRESS_END);
  }
  return { folder, tasks: tasks.size, ...report };
}

async function* tasksOf(session: Session): AsyncGenerator<string> {
  const { admin } = await session.client();
  for (let cursor: string | undefined; ; ) {
    const page = await admin.tasks({ ...session.deadline, cursor, limit: LIMITS.tasks_limit_max });
    for (const { task_id } of page.tasks) yield task_id;
    cursor = page.cursor;
    if (cursor === undefined) return;
  }
}

async function lastingDifference(session: Session, mirror: MirrorFolder, taskId: string): Promise<OfTask> {
  const { deadlineMs = 0 } = session.deadline;
  for (const end = performance.now() + Math.max(LAG_MS_MAX, deadlineMs); ; await sleep(PAUSE_MS)) {
    const difference = await compareTask(session, mirror, taskId);
    if (difference.findings.length === 0 || performance.now() > end) return difference;
  }
}

async function compareTask(session: Session, mirror: MirrorFolder, taskId: string): Promise<OfTask> {
  const client = await session.client();
  const place = { tenant: client.tenant, task: taskId };
  const left = new Set(await mirror.checkpoints(place));
  const findings: MirrorFinding[] = [];
  const add = (checkpointId: string, problem: MirrorFinding["problem"]) =>
    findings.push({ task_id: taskId, checkpoint_id: checkpointId, problem });
  let [files, corrupt] = [0, 0];
  const isKnown = (await client.getTask(taskId, session.deadline)) !== null;
  for (let cursor: string | undefined; isKnown; ) {
    const query = { ...session.deadline, cursor, limit: LIMITS.history_limit_max, order: "oldest" as const };
    const page = await client.getCheckpointHistory(taskId, query);
    for (const { metadata, compliance } of page.checkpoints) {
      const id = metadata.checkpoint_id;
      const sealed = await mirror.read(place, id);
      if (sealed?.hash === compliance.hash) files += 1;
      else add(id, left.has(id) ? "damaged" : "missing");
      left.delete(id);
    }
    for (const { checkpoint_id: id } of page.corrupt) if (id !== null) left.delete(id);
    corrupt += page.corrupt.length;
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  for (const id of left) add(id, "surplus");
  return { files, corrupt, findings };
}
