/** The observation that an agent failed: whether it counts, and its consequences. */
import type { Handoff } from "../protocol/handoff-record.ts";
import type { RecoveryFailure } from "../protocol/recovery-record.ts";
import { block } from "./block.ts";
import { afterFailure, blockAgain } from "./budget.ts";
import type { Decision } from "./decision.ts";
import { cancel, handoffStateAfter } from "./handoff.ts";
import type { FailureSighting } from "./input.ts";
import { fail, recoveryPolicy } from "./recovery.ts";
import { budgetOf, type TaskRecord, takenBlock, type Work } from "./task.ts";
import { type Refusal, refuse, type Why } from "./transition.ts";

/** Revokes the ownership of the failed agent. */
export function failAgent(
  decision: Decision,
  task: TaskRecord,
  { failure: seen, aliveUntilMs, hasWritten }: FailureSighting,
): Decision | Refusal {
  const { nowMs, random, traceparent } = decision.circumstances;
  const why = whyNotFailed(task, decision.handoff, seen);
  if (why !== null) return refuse(why);
  if (seen.signal === "handoff_lapsed" && hasWritten && !isUnansweredAttempt(task.work))
    return refuse("written");
  if (aliveUntilMs > nowMs) return refuse("agent_alive", null, aliveUntilMs);
  const agentType = seen.agent_type ?? task.agent_type;
  const failure: RecoveryFailure = {
    ...seen,
    agent_type: agentType,
    noted_at: decision.at,
    ...(traceparent !== undefined && { traceparent }),
  };
  const policy = recoveryPolicy(decision, agentType);
  const { handoff } = decision;
  if (handoff !== null && handoffStateAfter(handoff, "supersede") !== null) {
    cancel(decision, { reason: "agent_failed", details: failure.class });
  }
  const budget = budgetOf(task);
  // A task that an agent took while it was blocked waits for the same operator again.
  const before = takenBlock(task);
  const taken = before?.reason === "checkpoint_corrupt" ? null : before;
  const outcome =
    taken === null
      ? afterFailure(budget, failure, policy, { nowMs, random })
      : blockAgain(taken.reason, budget, policy, nowMs);
  fail(decision, failure, outcome, policy.attempts + policy.previous_attempts);
  if (outcome.do === "block") {
    const { details } = taken ?? failure;
    block(decision, { reason: outcome.reason, details, dueMs: outcome.dueMs });
  }
  return decision;
}

/** null: the failure counts. */
function whyNotFailed(
  task: TaskRecord,
  open: Handoff | null,
  { signal, agent_id: agent, fence }: FailureSighting["failure"],
): Why | null {
  const { work, owner } = task;
  if (work.kind === "ended") return "ended";
  if (task.fence !== fence) return "superseded";
  const isOwners = owner !== null && owner === agent;
  // The agent that accepted the handoff may have released the task; another owner would have another fence.
  const isReleased =
    signal === "handoff_lapsed" && owner === null && open === null && work.kind !== "blocked";
  const isRejected = signal === "handoff_rejected" && open === null && takenBlock(task) === null;
  const isCorrupt = isRejected && waitsForWatchdog(task);
  if (!isOwners && !isReleased && !isCorrupt && !(isRejected && work.kind === "blocked")) return "superseded";
  if (work.kind === "blocked" && !isCorrupt && !(isOwners && takenBlock(task) !== null)) return "blocked";
  // An agent that hands its task over has done its part; only one that has accepted the task works on it.
  return open === null || open.state === "accepted" ? null : "handing_off";
}

/** A handoff of a corrupt checkpoint ended, and the watchdogs have not recorded it yet. */
function waitsForWatchdog({ work, owner }: TaskRecord): boolean {
  if (work.kind === "blocked") return work.reason === "checkpoint_corrupt" && work.taken_by === null;
  return isUnansweredAttempt(work) && owner === null;
}

/** The handoff of an attempt has ended without a checkpoint of the next agent. */
function isUnansweredAttempt(work: Work): boolean {
  return work.kind === "recovering" && work.stage === "attempted" && work.handoff_id === null;
}
