/**
 * Blocks: a task waits for an operator, who is alerted once. A task that is blocked again for the same reason, without progress or an
 * operator's retry in between, keeps its alert: an agent that crashes at every start must not alert operators each time.
 */
import type { BlockReason } from "../protocol/recovery-states.ts";
import type { Decision } from "./decision.ts";
import type { TaskRecord } from "./task.ts";

export interface Blocking {
  readonly reason: BlockReason;
  readonly details: string | null;
}

interface BlockOptions extends Blocking {
  /** The time of the probe. */
  readonly dueMs?: number | null;
  /** The audit entry that operators are alerted of, when it is another one than this block's. */
  readonly alertSeq?: number;
  readonly handoffId?: string;
}

export function block(
  decision: Decision,
  { reason, details, dueMs = null, alertSeq, handoffId }: BlockOptions,
): void {
  const { task } = decision;
  const alerted = alertedFor(task, reason);
  const seq = alerted ?? alertSeq ?? task.audit_seq + 1;
  const again = alerted !== null && { alertedSeq: alerted };
  const handoff = handoffId !== undefined && { handoffId };
  decision.add("block", {
    facts: {
      reason,
      alert_seq: seq,
      due_at: dueMs === null ? null : new Date(dueMs).toISOString(),
      ...(alerted !== null && { alerted_seq: alerted }),
      ...(handoffId !== undefined && { handoff_id: handoffId }),
    },
    event: { type: "TASK_BLOCKED", data: { taskId: task.task_id, reason, ...handoff, ...again } },
    texts: { details },
  });
}

/** The entry that operators were alerted of when the task was last blocked for this reason; null: this is another block. */
function alertedFor({ work, alerted }: TaskRecord, reason: BlockReason): number | null {
  if (work.kind === "blocked") return work.reason === reason ? work.alert_seq : null;
  return alerted?.reason === reason ? alerted.seq : null;
}
