/**
 * Replay: folding the audit trail of a task through `apply` yields its head. Free text (the details of a failure or a block, an operator's
 * choice) is not audited and therefore not compared.
 */
import { apply } from "./apply.ts";
import { budgetOf, openHandoffOf, recoveryStateOf, stateOf, type TaskRecord } from "./task.ts";
import { type AuditedChange, MissingFact } from "./trail/facts.ts";
import { AUDIT_OPS, type AuditOp } from "./transition.ts";

/** The version of entries with all facts from which the state of the task can be derived. Entries of version 1 lack some. */
export const AUDIT_VERSION = 2;

/** An entry of the audit trail, as parsed from its canonical JSON. */
export type AuditEntry = Readonly<Record<string, unknown>>;

/**
 * The head that a trail leads to. null: an earlier version wrote an entry, which lacks a fact, or the trail is empty. Throws RangeError for
 * an entry that the lifecycle cannot have written.
 */
export function replay(entries: readonly AuditEntry[]): TaskRecord | null {
  let task: TaskRecord | null = null;
  try {
    for (const entry of entries) task = replayEntry(task, entry);
  } catch (error) {
    if (error instanceof MissingFact) return null;
    throw error;
  }
  return task;
}

/**
 * The task after one more entry; `task` null: the entry begins it. Throws MissingFact for an entry of an earlier version, RangeError for one
 * that the lifecycle cannot have written.
 */
export function replayEntry(task: TaskRecord | null, entry: AuditEntry): TaskRecord {
  return apply(task, placeOf(entry), changeOf(entry));
}

/** The members on which a replay and the stored head must agree. */
export function comparable(task: TaskRecord) {
  const { owner, fence, phase, agent_id, agent_type, latest_id, last_successful_id, seq } = task;
  const { failure: _failure, choice: _choice, ...budget } = budgetOf(task);
  const {
    owned_seq,
    taken_seq,
    completed_items,
    completion_seq,
    alerted,
    origin,
    audit_seq,
    work,
    retention,
    shred = null,
  } = task;
  return {
    ...{ owner, fence, phase, agent_id, agent_type, latest_id, last_successful_id, seq },
    ...{
      owned_seq,
      taken_seq,
      completed_items,
      completion_seq,
      alerted,
      origin,
      audit_seq,
      retention,
      shred,
    },
    state: stateOf(task),
    recovery: recoveryStateOf(task),
    handoff: openHandoffOf(task),
    work: work.kind === "blocked" ? { ...work, details: null } : work,
    budget: task.budget === null ? null : budget,
  };
}

function placeOf({ tenant, task }: AuditEntry): { tenant: string; task: string } {
  return { tenant: String(tenant), task: String(task) };
}

function changeOf(entry: AuditEntry): AuditedChange {
  const { op, at, actor, checkpoint_id: checkpointId } = entry;
  if (!AUDIT_OPS.includes(op as AuditOp)) throw new RangeError("the entry has an unknown operation");
  const id = (actor as { id?: unknown } | null)?.id;
  return {
    op: op as AuditOp,
    at: String(at),
    actor: String(id),
    checkpointId: typeof checkpointId === "string" ? checkpointId : null,
    facts: entry,
  };
}
