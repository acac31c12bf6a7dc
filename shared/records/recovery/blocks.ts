/**
 * Blocks: a task waits for a person, who is alerted once. Blocked for the same again, with nothing new done in between and nobody who asked
 * for another attempt, it is the same block: an agent that crashes as often as it is started must not call people each time.
 */

import type { Recovery } from "../../protocol/recovery-record.ts";
import type { BlockReason } from "../../protocol/recovery-states.ts";
import { type Head, nextState, type Step } from "../task/transitions.ts";
import { isLeftToRecovery, moved, recoveryOf } from "./recovery-transitions.ts";

export interface Blocking {
  readonly reason: BlockReason;
  readonly details: string | null;
}

/** `dueMs`: when one more attempt is made all the same; null: when a person wants it. */
export function block(head: Head, blocking: Blocking, at: string, dueMs: number | null = null): Step {
  const { reason } = blocking;
  const alertedSeq = alertedOf(head, reason);
  const after: Head = {
    ...blocked(head, blocking, at, dueMs),
    state: nextState(head, "block"),
    block: { ...blocking, seq: alertedSeq, fence: head.fence },
  };
  const again = alertedSeq !== null;
  const data = { taskId: head.task_id, reason, ...(again && { alertedSeq }) };
  const facts = { reason, ...(again && { alerted_seq: alertedSeq }) };
  return moved("block", head, after, { type: "TASK_BLOCKED", data }, facts);
}

/** The entry of which people were alerted when the task was blocked for the same; null: it is another block. */
function alertedOf({ block }: Pick<Head, "block">, reason: BlockReason): number | null {
  return block?.reason === reason ? block.seq : null;
}

/** What blocking a task makes of its recovery. */
export function blocked(head: Head, blocking: Blocking, at: string, dueMs: number | null = null): Head {
  const recovery: Recovery = {
    ...recoveryOf(head),
    state: "blocked",
    due_at: dueMs === null ? null : new Date(dueMs).toISOString(),
    blocked: { ...blocking, at },
  };
  return { ...head, recovery, updated_at: at };
}

/** Whether somebody has the task who took it while it was blocked, and has written nothing. */
export function isTakenBlocked({ state, owner, fence, block }: Head): boolean {
  return state === "blocked" && owner !== null && block !== null && fence > block.fence;
}

/** What such a task waits for again when it is left; null: for nobody, the watchdogs go on by themselves. */
export function blockLeft(head: Head): Blocking | null {
  const reason = isTakenBlocked(head) ? (head.block?.reason ?? null) : null;
  return reason === null ? null : { reason, details: head.block?.details ?? null };
}

/** Whether a checkpoint leaves the task to the person whom it waits for: of nobody in particular, it brings nobody who goes on. */
export function staysBlocked(head: Head | null): boolean {
  return head !== null && head.state === "blocked" && isLeftToRecovery(head);
}
