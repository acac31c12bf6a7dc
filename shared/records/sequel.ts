/**
 * What a new checkpoint does to the handoffs and the recovery of its task. The first one of whoever accepted a handoff confirms it; if
 * that was an attempt at recovery, the task has recovered. One in phase `handoff` opens another, and what was open until then has come to nothing.
 */
import type { UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import type { Handoff, HandoffWish } from "../protocol/handoff-record.ts";
import type { Tx } from "../store/store.ts";
import { cancel, confirm, request } from "./handoff/handoff-transitions.ts";
import { write } from "./handoff/record.ts";
import {
  isLeftToRecovery,
  progress,
  recoveryAfter,
  recoveryOf,
  resume,
  supersede,
} from "./recovery/recovery-transitions.ts";
import type { Begun, CommandContext } from "./task/command-transaction.ts";
import type { Head, Step } from "./task/transitions.ts";

export interface Created {
  /** As the checkpoint leaves it. */
  readonly head: Head;
  readonly open: Handoff | null;
  readonly written: {
    readonly checkpoint: UnsealedCheckpoint;
    readonly hash: string;
    readonly wish: HandoffWish | undefined;
  };
}

/** Whether the caller has accepted the handoff and still has the task. */
export function isTakers(open: Handoff, { actor, fence }: Pick<CommandContext, "actor" | "fence">): boolean {
  return open.state === "accepted" && open.accepted_by === actor.agent && open.fence === fence;
}

export function sequel(
  tx: Tx,
  context: CommandContext,
  { keys, head: before }: Begun,
  { head: created, open, written }: Created,
): Step[] {
  const { checkpoint, hash, wish } = written;
  const { checkpoint_id: id, parent_ids: parents } = checkpoint.metadata;
  const at = created.updated_at;
  const steps: Step[] = [];
  const head = (): Head => steps.at(-1)?.head ?? created;
  const asksForOne = checkpoint.execution_state.phase === "handoff";
  const first = { id, agent: context.actor.agent };
  if (open !== null && isTakers(open, context) && parents.length > 0) {
    steps.push(...write(tx, keys, confirm(created, open, first, at)));
    if (open.recovery !== null && recoveryAfter(head(), "resume") !== null)
      steps.push(resume(head(), first, at));
  } else if (open !== null && asksForOne) {
    steps.push(...write(tx, keys, cancel(created, open, { reason: "superseded", details: id }, at)));
  } else if (isLate(created)) {
    steps.push(resume(created, first, at));
  }
  // Somebody goes on with what waited for a person.
  if (before?.state === "blocked" && created.state !== "blocked")
    steps.push(...supersede(head(), "supersede", at));
  steps.push(...progress(head(), checkpoint, at));
  if (asksForOne) {
    steps.push(...supersede(head(), "supersede", at));
    const supersedesRecovery = before !== null && isLeftToRecovery(before, open);
    const { traceparent } = context;
    const asked = { id, checkpoint, hash, wish: wish ?? {}, traceparent, supersedesRecovery };
    steps.push(...write(tx, keys, request(head(), asked, context.nowMs)));
  }
  return steps;
}

/** The handoff that was the attempt has lapsed, and its agent, which no watchdog has deposed yet, writes after all. */
function isLate(head: Head): boolean {
  return recoveryOf(head).state === "attempted" && head.handoff_id === null && head.owner !== null;
}
