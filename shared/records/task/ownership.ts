/** The commands that change the owner of a task. */

import type { Decision } from "../../lifecycle/decision.ts";
import type { TakeCommand } from "../../protocol/commands.ts";
import type { Tx } from "../../store/store.ts";
import { readOpenHandoff } from "../handoff/record.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { promiseHeartbeats } from "../recovery/leases.ts";
import {
  type Begun,
  begin,
  type CommandContext,
  complete,
  decided,
  type Replay,
} from "./command-transaction.ts";
import type { RememberedOwnership } from "./idempotency.ts";

/** The policy for tasks whose agent type is not known. */
const UNKNOWN_TYPE = "";

/**
 * Creates the task, without a checkpoint, if it does not exist yet. Throws CONFLICT when the fence is not the
 * expected one.
 */
export async function takeTask(
  tx: Tx,
  context: CommandContext,
  { expected_fence: expectedFence, heartbeats }: Pick<TakeCommand, "expected_fence" | "heartbeats">,
): Promise<RememberedOwnership | Replay> {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const { head: task, keys } = begun;
  const handoff = await readOpenHandoff(tx, keys, task);
  const promisesHeartbeats = heartbeats === true;
  const decision = decided(context, { task, handoff }, { type: "take", expectedFence, promisesHeartbeats });
  if (task === null) tx.addI64(systemKeys.count("tasks"), 1n);
  if (promisesHeartbeats) {
    const { tenant, task: taskId, agent: agentId } = context.actor;
    const agentType = task?.agent_type ?? UNKNOWN_TYPE;
    const { fence } = decision.task;
    promiseHeartbeats(tx, { tenant, task: taskId, fence, agentId, agentType }, context.nowMs);
  }
  return owned(tx, context, begun, decision);
}

/** Needs the current fence. Throws CONFLICT when the task has no owner. */
export async function releaseTask(tx: Tx, context: CommandContext): Promise<RememberedOwnership | Replay> {
  const begun = await begin(tx, context, () => []);
  if ("replay" in begun) return begun;
  const decision = decided(context, { task: begun.head, handoff: null }, { type: "release" });
  return owned(tx, context, begun, decision);
}

function owned(
  tx: Tx,
  context: CommandContext,
  begun: Begun,
  decision: Decision,
): Promise<RememberedOwnership> {
  const { task_id, owner, fence } = decision.task;
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: { task_id, owner, fence, committed_at: decision.at },
  });
}
