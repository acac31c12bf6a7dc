/** Commands on handoffs: request one, accept the offered task, cancel a handoff. */
import type { Decision } from "../../lifecycle/decision.ts";
import type { AcknowledgeCommand, CancelHandoffCommand, HandoffCommand } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import type { Tx } from "../../store/store.ts";
import { soundInTask } from "../checkpoint/lookup.ts";
import { promiseHeartbeats } from "../recovery/leases.ts";
import { begin, type CommandContext, complete, decided, type Replay } from "../task/command-transaction.ts";
import type { RememberedAcknowledgement, RememberedHandoff } from "../task/idempotency.ts";
import { decodeHandoff, readOpenHandoff } from "./record.ts";

/** Throws CONFLICT while a handoff of the task is open, NOT_FOUND without a checkpoint to hand off. */
export async function initiateHandoff(
  tx: Tx,
  context: CommandContext,
  command: HandoffCommand,
): Promise<RememberedHandoff | Replay> {
  const begun = await begin(tx, context, () => []);
  if ("replay" in begun) return begun;
  const { head: task, keys } = begun;
  const id = command.checkpoint_id ?? task?.latest_id ?? null;
  if (task === null || id === null) {
    throw new FleetError("NOT_FOUND", "the task has no checkpoint to hand off", {
      details: { task_id: context.actor.task },
    });
  }
  const handoff = await readOpenHandoff(tx, keys, task);
  const checkpoint = await soundInTask(tx, keys, context.actor.task, id);
  const { hash } = checkpoint.compliance;
  const request = { id: context.commandId, checkpoint, hash, options: command };
  const decision = decided(context, { task, handoff }, { type: "handoff", request });
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: handoffAnswer(decision, context.commandId),
  });
}

/**
 * Makes the caller the task's owner, if the offer still stands and is for its type. Throws CONFLICT for an
 * offer that another agent has accepted, that was cancelled, that has expired, or that the fleet did not make.
 */
export async function acknowledgeHandoff(
  tx: Tx,
  context: CommandContext,
  command: AcknowledgeCommand,
): Promise<RememberedAcknowledgement | Replay> {
  const {
    handoff_id: id,
    agent_type: agentType,
    checkpoint_id: checkpointId,
    offer_digest: digest,
  } = command;
  const begun = await begin(tx, context, (keys) => [keys.handoff(id)], { supersedes: true });
  if ("replay" in begun) return begun;
  const { head: task, keys, values } = begun;
  const named = namedHandoff(context, id, values[0]);
  const handoff = await readOpenHandoff(tx, keys, task);
  const decision = decided(
    context,
    { task, handoff },
    { type: "acknowledge", named, agentType, checkpointId, digest },
  );
  const { owner, fence } = decision.task;
  const { tenant, agent, task: taskId } = context.actor;
  if (command.heartbeats) {
    promiseHeartbeats(tx, { tenant, task: taskId, fence, agentId: agent, agentType }, context.nowMs);
  }
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: {
      task_id: taskId,
      owner,
      fence,
      committed_at: decision.at,
      handoff_id: id,
      checkpoint_id: checkpointId,
      deadline: decision.handoff?.deadline ?? decision.at,
    },
  });
}

/** Throws CONFLICT when no handoff is open, or when it was accepted already. */
export async function cancelHandoff(
  tx: Tx,
  context: CommandContext,
  command: CancelHandoffCommand,
): Promise<RememberedHandoff | Replay> {
  const { handoff_id: id, reason = null } = command;
  const begun = await begin(tx, context, (keys) => (id === undefined ? [] : [keys.handoff(id)]));
  if ("replay" in begun) return begun;
  const { head: task, keys, values } = begun;
  const named = id === undefined ? null : namedHandoff(context, id, values[0]);
  const handoff = await readOpenHandoff(tx, keys, task);
  const decision = decided(context, { task, handoff }, { type: "cancel_handoff", named, reason });
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: handoffAnswer(decision, (named ?? handoff)?.handoff_id as string),
  });
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

/** The handoff as the transitions leave it. */
function handoffAnswer(decision: Decision, id: string): RememberedHandoff {
  const changes = decision.transitions.flatMap(({ handoff }) =>
    handoff?.after.handoff_id === id ? [handoff] : [],
  );
  const { task_id, handoff_id, checkpoint_id, state } = (changes.at(-1) as (typeof changes)[number]).after;
  return { task_id, handoff_id, checkpoint_id, state, committed_at: decision.at };
}
