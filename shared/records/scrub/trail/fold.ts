/**
 * The fold of an audit trail, in constant memory: the task and its newest handoff as the entries lead to
 * them. A head or a handoff that was edited differs from it, even if the edited record is well-formed.
 * Entries of an earlier version lack facts, so their tasks have no fold.
 */
import { isDeepStrictEqual } from "node:util";
import { AUDIT_VERSION, type AuditEntry, comparable, replayEntry } from "../../../lifecycle/replay.ts";
import type { TaskRecord } from "../../../lifecycle/task.ts";
import { MissingFact } from "../../../lifecycle/trail/facts.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";
import type { ReplayedMembers } from "../task/head.ts";
import { foldHandoff, type HandoffFold, type NewestVersion, verifyFoldedHandoff } from "./handoff-fold.ts";

export interface Fold {
  /** null: before the first entry. */
  readonly task: TaskRecord | null;
  /** The newest handoff; null: there was none. */
  readonly handoff: HandoffFold | null;
  /** The number of handoffs so far. */
  readonly handoffs: number;
  /** The version that the newest entry made. */
  readonly made: NewestVersion | null;
}

export const FOLD_START: Fold = { task: null, handoff: null, handoffs: 0, made: null };

/** The number of handoffs of a task that are counted. */
const HANDOFFS_MAX = 1_000;

/** Returns null if the entries have no fold. */
export async function foldEntries(
  scrub: TaskScrub,
  from: Fold | null,
  entries: readonly AuditEntry[],
): Promise<Fold | null> {
  let fold = from;
  for (const entry of entries) {
    if (fold === null) return null;
    const next = foldEntry(scrub, fold, entry);
    // A handoff that another follows has ended, and never changes again.
    if (next !== null && fold.handoff !== null && next.handoffs > fold.handoffs) {
      await verifyFoldedHandoff(scrub, fold.handoff);
    }
    fold = next;
  }
  return fold;
}

function foldEntry(scrub: TaskScrub, fold: Fold, entry: AuditEntry): Fold | null {
  if (entry.v !== AUDIT_VERSION) return null;
  const task = replayed(scrub, fold.task, entry);
  if (task === null) return null;
  const { seq, fence, op, checkpoint_id: id, new_hash: hash } = entry;
  if (fence !== task.fence) {
    scrub.note(ofTask("audit", `entry ${seq}: its fence is ${fence}, and the trail leads to ${task.fence}`));
    return null;
  }
  return {
    task,
    handoff: foldHandoff(fold.handoff, fold.made, entry),
    handoffs: fold.handoffs + (op === "handoff" ? 1 : 0),
    made: typeof id === "string" && typeof hash === "string" ? { id, hash } : fold.made,
  };
}

function replayed(scrub: TaskScrub, before: TaskRecord | null, entry: AuditEntry): TaskRecord | null {
  try {
    return replayEntry(before, entry);
  } catch (error) {
    if (!(error instanceof MissingFact)) {
      scrub.note(ofTask("audit", `entry ${entry.seq}: it cannot follow the entries before it`));
    }
    return null;
  }
}

/** Verifies the head at the end of the folded entries. */
export function verifyFold(scrub: TaskScrub, { task }: Fold, head: ReplayedMembers): void {
  if (task === null) return;
  const stored = new Map(Object.entries(head));
  const differing = Object.entries(comparable(task)).flatMap(([name, value]) =>
    // An earlier version of a pass in progress lacks members.
    !stored.has(name) || isDeepStrictEqual(value, stored.get(name)) ? [] : [name],
  );
  if (differing.length === 0) return;
  scrub.note(ofTask("head", `the head differs from the trail in: ${differing.join(", ")}`));
}

/** Verifies the newest handoff, and the number of handoffs, at the end of the whole trail. */
export async function verifyHandoffsOf(scrub: TaskScrub, { handoff, handoffs }: Fold): Promise<void> {
  const { reader, keys, task } = scrub;
  if (handoff !== null) await verifyFoldedHandoff(scrub, handoff);
  const { rows, more } = await reader.getRange(keys.taskHandoffs(task), { limit: HANDOFFS_MAX });
  if (more || rows.length <= handoffs) return;
  scrub.note(ofTask("handoff", `the task has ${rows.length} handoffs, and its trail began ${handoffs}`));
}
