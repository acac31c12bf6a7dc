/**
 * Ownership. A take makes the caller the owner and raises the fence by one, in one transaction: from that commit on, every command with a
 * lower fence is refused (guarantee 5). Any agent that may address the task may take it; the previous owner is superseded and an open
 * handoff is cancelled. The fence never falls, so an earlier owner never becomes current again.
 */
import { FleetError, invalid } from "../protocol/errors.ts";
import { block } from "./block.ts";
import { blockAgain } from "./budget.ts";
import type { Decision } from "./decision.ts";
import { cancel } from "./handoff.ts";
import { recoveryPolicy, settleTaken } from "./recovery.ts";
import { budgetOf, type TaskRecord, takenBlock } from "./task.ts";
import { conflict, type Refusal } from "./transition.ts";

/**
 * The fence decides, not the agent's name: a tool or hook that was given the current fence acts for the owner, and the audit trail names
 * it. A task without owner needs no fence, but an old one is refused. Throws FENCED or INVALID.
 */
export function requireFence(
  task: Pick<TaskRecord, "fence" | "owner"> | null,
  fence: number | undefined,
  supersedes: boolean,
): void {
  const current = task?.fence ?? 0;
  const owner = task?.owner ?? null;
  if (fence === current) return;
  if (fence === undefined) {
    if (owner === null || supersedes) return;
    throw new FleetError("FENCED", "the task has an owner; its fence is needed", {
      details: { owner, fence: current, given: null },
    });
  }
  if (fence > current) throw invalid("fence", `at most the task's fence, ${current}`, fence);
  throw new FleetError("FENCED", "the task's ownership has changed since this fence was given", {
    details: { owner, fence: current, given: fence },
  });
}

export interface Take {
  readonly expectedFence: number | undefined;
  readonly promisesHeartbeats: boolean;
}

/** A task that does not exist begins here, without a checkpoint. */
export function take(
  decision: Decision,
  before: TaskRecord | null,
  { expectedFence: expected, promisesHeartbeats }: Take,
): Decision | Refusal {
  const { actor: agent, task: taskId, fenceFloor = 0 } = decision.circumstances;
  const actual = before?.fence ?? 0;
  const taken = (before?.fence ?? fenceFloor) + 1;
  const previousOwner = before?.owner ?? null;
  if (expected !== undefined && expected !== actual) {
    const error = new FleetError("CONFLICT", "the task has another fence than expected", {
      fields: [{ path: "expected_fence", expected: String(actual), got: String(expected) }],
      details: { actual, owner: previousOwner },
    });
    return { refused: "unexpected_fence", error };
  }
  decision.add("take", {
    facts: { owner_from: previousOwner, owner_to: agent },
    event: { type: "TASK_TAKEN", data: { taskId, agentId: agent, fence: taken, previousOwner } },
  });
  if (decision.handoff !== null) cancel(decision, { reason: "taken", details: agent });
  if (before !== null) settleTaken(decision, before, promisesHeartbeats);
  return decision;
}

/** Only under the current fence. A task that was taken while it was blocked is blocked again. */
export function release(decision: Decision, before: TaskRecord | null): Decision | Refusal {
  const { actor: agent, task: taskId, nowMs } = decision.circumstances;
  if (before === null || before.owner === null) {
    return conflict("not_owned", "the task has no owner", { task_id: taskId, fence: before?.fence ?? 0 });
  }
  const { fence } = before;
  decision.add("release", {
    facts: { owner_from: before.owner, owner_to: null },
    event: { type: "TASK_RELEASED", data: { taskId, agentId: agent, fence } },
  });
  const taken = takenBlock(before);
  if (taken === null) return decision;
  const budget = budgetOf(before);
  const policy = recoveryPolicy(decision, budget.failure?.agent_type ?? before.agent_type);
  const { reason, details } = taken;
  const { dueMs } = blockAgain(reason, budget, policy, nowMs);
  block(decision, { reason, details, dueMs });
  return decision;
}
