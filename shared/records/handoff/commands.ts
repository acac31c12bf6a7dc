/**
 * What agents and people do to handoffs: ask for one, take the offered task, take a handoff back. Each is a command like every other, and
 * like every other it is decided on the task's head, so of two that come at once one finds what the other has left.
 */
import type { AcknowledgeCommand, CancelHandoffCommand, HandoffCommand } from "../../protocol/commands.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import type { Tx } from "../../store/store.ts";
import { soundInTask } from "../checkpoint/lookup.ts";
import { block } from "../recovery/blocks.ts";
import { writePromise } from "../recovery/leases.ts";
import { isLeftToRecovery, supersede } from "../recovery/recovery-transitions.ts";
import {
  type Begun,
  begin,
  type CommandContext,
  complete,
  type Replay,
} from "../task/command-transaction.ts";
import type { RememberedAcknowledgement, RememberedAnswer, RememberedHandoff } from "../task/idempotency.ts";
import { accept, bringsOn, cancel, type Move, request, stateAfter } from "./handoff-transitions.ts";
import { decodeHandoff, readOpen, write } from "./record.ts";

/** Throws CONFLICT while a handoff of the task is open, NOT_FOUND without a checkpoint to hand off. */
export async function initiateHandoff(
  tx: Tx,
  context: CommandContext,
  command: HandoffCommand,
): Promise<RememberedHandoff | Replay> {
  const begun = await begin(tx, context, () => []);
  if ("replay" in begun) return begun;
  const { head } = begun;
  const id = command.checkpoint_id ?? head?.latest_id ?? null;
  if (head === null || id === null) {
    throw new FleetError("NOT_FOUND", "the task has no checkpoint to hand off", {
      details: { task_id: context.actor.task },
    });
  }
  const open = await readOpen(tx, begun.keys, head);
  if (open !== null) {
    throw new FleetError("CONFLICT", "a handoff of this task is open", {
      details: { handoff_id: open.handoff_id, state: open.state },
    });
  }
  const { commandId, nowMs, traceparent } = context;
  const checkpoint = await soundInTask(tx, begun.keys, context.actor.task, id);
  const { hash } = checkpoint.compliance;
  const superseded = supersede(head, "supersede", new Date(nowMs).toISOString());
  const supersedesRecovery = isLeftToRecovery(head);
  const asked = { id: commandId, checkpoint, hash, wish: command, traceparent, supersedesRecovery };
  const requested = request(superseded.at(-1)?.head ?? head, asked, nowMs);
  return finish(tx, context, begun, { ...requested, steps: [...superseded, ...requested.steps] }, opened);
}

/**
 * Makes the caller the task's owner, if the offer still stands and is for its type. Throws CONFLICT for an offer that somebody else has
 * taken, that was taken back or whose deadline is over.
 */
export async function acknowledgeHandoff(
  tx: Tx,
  context: CommandContext,
  command: AcknowledgeCommand,
): Promise<RememberedAcknowledgement | Replay> {
  const id = command.handoff_id;
  const begun = await begin(tx, context, (keys) => [keys.handoff(id)], { supersedes: true });
  if ("replay" in begun) return begun;
  const { head, values } = begun;
  const handoff = namedHandoff(context, id, values[0]);
  if (head === null || stateAfter(handoff, "acknowledge") === null) throw notAnyMore(handoff);
  if (handoff.deadline === null || context.nowMs > Date.parse(handoff.deadline)) {
    throw new FleetError("CONFLICT", "the offer's deadline is over", {
      details: { handoff_id: id, state: handoff.state, deadline: handoff.deadline },
    });
  }
  if (command.agent_type !== handoff.to_agent_type) {
    throw invalid("agent_type", `${handoff.to_agent_type}, as in the offer`, command.agent_type);
  }
  if (command.checkpoint_id !== handoff.checkpoint_id) {
    throw invalid("checkpoint_id", `${handoff.checkpoint_id}, as in the offer`, command.checkpoint_id);
  }
  const { tenant, agent, task } = context.actor;
  if (command.heartbeats) {
    const promise = { tenant, task, fence: head.fence + 1, agentId: agent, agentType: command.agent_type };
    writePromise(tx, promise, context.nowMs);
  }
  return finish(tx, context, begun, accept(head, handoff, agent, context.nowMs), (after, at) => ({
    task_id: task,
    owner: agent,
    fence: after.fence ?? head.fence,
    committed_at: at,
    handoff_id: id,
    checkpoint_id: after.checkpoint_id,
    deadline: after.deadline ?? at,
  }));
}

/** A task that nothing else brings on after a failure waits for a person then. Throws CONFLICT when there is nothing to take back, or when it is too late for it. */
export async function cancelHandoff(
  tx: Tx,
  context: CommandContext,
  command: CancelHandoffCommand,
): Promise<RememberedHandoff | Replay> {
  const { handoff_id: named, reason = null } = command;
  const begun = await begin(tx, context, (keys) => (named === undefined ? [] : [keys.handoff(named)]));
  if ("replay" in begun) return begun;
  const { head, values } = begun;
  const handoff =
    named === undefined ? await readOpen(tx, begun.keys, head) : namedHandoff(context, named, values[0]);
  if (head === null || handoff === null) {
    throw new FleetError("CONFLICT", "no handoff of this task is open", {
      details: { task_id: context.actor.task },
    });
  }
  if (stateAfter(handoff, "cancel") === null) throw notAnyMore(handoff);
  const at = new Date(context.nowMs).toISOString();
  const withdrawn = { reason: "withdrawn", details: reason } as const;
  const move = cancel(head, handoff, withdrawn, at);
  const left = move.steps.at(-1)?.head ?? head;
  // Nobody would go on with the task, and nobody be told so.
  const blocking = bringsOn(handoff)
    ? [block(left, { reason: "withdrawn", details: saidBy(context, reason) }, at)]
    : [];
  return finish(tx, context, begun, { ...move, steps: [...move.steps, ...blocking] }, opened);
}

function saidBy({ actor }: CommandContext, reason: string | null): string {
  return `${actor.agent} took its handoff back${reason === null ? "" : `: ${reason}`}`;
}

function namedHandoff({ actor }: CommandContext, id: string, value: Uint8Array | undefined): Handoff {
  const handoff = value === undefined ? null : decodeHandoff(id, value);
  if (handoff === null || handoff.task_id !== actor.task) {
    throw new FleetError("NOT_FOUND", "the task has no such handoff", {
      details: { handoff_id: id, task_id: actor.task },
    });
  }
  return handoff;
}

function notAnyMore({ handoff_id, state, accepted_by }: Handoff): FleetError {
  return new FleetError("CONFLICT", "the handoff's state does not allow this", {
    details: { handoff_id, state, accepted_by },
  });
}

function opened(after: Handoff, at: string): RememberedHandoff {
  const { task_id, handoff_id, checkpoint_id, state } = after;
  return { task_id, handoff_id, checkpoint_id, state, committed_at: at };
}

function finish<A extends RememberedAnswer>(
  tx: Tx,
  context: CommandContext,
  begun: Begun,
  move: Move,
  answerOf: (after: Handoff, at: string) => A,
): A {
  const answer = answerOf(move.after, new Date(context.nowMs).toISOString());
  return complete(tx, context, begun, { steps: write(tx, begun.keys, move), answer });
}
