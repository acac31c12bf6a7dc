/** The transitions of a recovery: a failure, an attempt, its success, and its end for another reason. */

import type { UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import type { Handoff } from "../protocol/handoff-record.ts";
import { LIMITS } from "../protocol/limits.ts";
import { type Policy, policyOf } from "../protocol/policy.ts";
import type { RecoveryChoice, RecoveryFailure } from "../protocol/recovery-record.ts";
import { completedItems, type FailureDecision, within } from "./budget.ts";
import type { Decision } from "./decision.ts";
import { request } from "./handoff.ts";
import { recoveryPhase, recoveryType } from "./routing.ts";
import { type Budget, budgetOf, recoveryStateOf, type TaskRecord } from "./task.ts";
import type { AuditFacts } from "./transition.ts";

export function recoveryPolicy(decision: Decision, agentType: string | null): Policy["recovery"] {
  const { policies, tenant } = decision.circumstances;
  return policyOf(policies, tenant, agentType ?? "").recovery;
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** Revokes ownership and raises the fence. `outcome` is decided already; a block is a transition of its own. */
export function fail(
  decision: Decision,
  failure: RecoveryFailure,
  outcome: FailureDecision,
  attemptsMax: number,
): void {
  const { task } = decision;
  const budget = budgetOf(task);
  const isAttempt = outcome.do === "attempt";
  const rung = isAttempt ? outcome.rung : budget.rung;
  const avoidId = isAttempt && rung === "previous" ? (budget.avoid_id ?? task.latest_id) : budget.avoid_id;
  const dueAt = isAttempt ? iso(outcome.dueMs) : null;
  const { agent_id: agentId, class: failureClass, signal, fence } = failure;
  const to = isAttempt ? outcome.toAgentType : null;
  decision.add("fail", {
    facts: {
      owner_from: task.owner,
      owner_to: null,
      class: failureClass,
      signal,
      action: isAttempt ? outcome.action : "block",
      rung,
      avoid_id: avoidId,
      attempts_max: attemptsMax,
      due_at: dueAt,
    },
    event: {
      type: "AGENT_FAILED",
      data: { taskId: task.task_id, agentId, class: failureClass, signal, fence, dueAt },
    },
    texts: {
      failure,
      choice: to === null ? null : { checkpoint_id: null, to_agent_type: to, reason: null, by: null },
    },
  });
}

export interface RecoveryPoint {
  readonly checkpoint: UnsealedCheckpoint;
  readonly hash: string;
}

/** Makes an attempt: it is counted, and a handoff from the recovery point is requested. */
export function attempt(decision: Decision, handoffId: string, point: RecoveryPoint): void {
  const { metadata } = point.checkpoint;
  const { completion_seq: completionSeq } = decision.task;
  const { failure, choice } = budgetOf(decision.task);
  const { checkpoint_id: checkpointId } = metadata;
  const counted = countedAttempt(decision, metadata.agent_type);
  const reason = attemptReason(budgetOf(decision.task), counted.attempt);
  decision.add("recover", {
    facts: {
      attempt: counted.attempt,
      rung: budgetOf(decision.task).rung,
      from_checkpoint: checkpointId,
      handoff_id: handoffId,
      window: counted.window,
      items: completedItems(point.checkpoint),
      // The work is done again, and so is the handoff on its completion.
      ...(completionSeq !== null && metadata.seq < completionSeq && { before_completion: "yes" }),
    },
    event: {
      type: "RECOVERY_INITIATED",
      data: { checkpointId, reason, taskId: decision.task.task_id, handoffId, attempt: counted.attempt },
    },
  });
  const nextPhase = recoveryPhase(decision.task, point.checkpoint);
  request(decision, {
    id: handoffId,
    ...point,
    options: {
      reason: shortened(reason),
      to_agent_type: recoveryType(decision.task, metadata, choice) ?? undefined,
      ...(nextPhase !== null && { next_phase: nextPhase }),
    },
    recovery: {
      attempt: counted.attempt,
      class: failure?.signal === "request" ? null : (failure?.class ?? null),
    },
    fromAgent: failure?.agent_id ?? undefined,
  });
}

/** The number of the next attempt, and how many attempts then lie in the policy's window. */
function countedAttempt(decision: Decision, agentType: string | null): { attempt: number; window: number } {
  const { attempts, recent } = budgetOf(decision.task);
  const { window_ms: windowMs } = recoveryPolicy(decision, agentType);
  const { nowMs } = decision.circumstances;
  return { attempt: attempts + 1, window: within(recent, windowMs, nowMs).length + 1 };
}

/** Why the task is handed over, for the next agent and for operators. */
function attemptReason({ failure, choice }: Budget, attempts: number): string {
  const asked = choice?.reason ?? null;
  if (failure === null || failure.signal === "request") return asked ?? "requested";
  const { class: failureClass, details, agent_id: agent } = failure;
  const failed = `attempt ${attempts} after ${agent ?? "the previous agent"} failed: ${failureClass}`;
  return [failed, details, asked].filter((part) => part !== null).join(", ");
}

/** Cut between two words, so that no secret is cut in half: its readers would not recognise the rest. */
function shortened(reason: string): string {
  const max = LIMITS.handoff_reason_chars_max;
  if (reason.length <= max) return reason;
  const end = reason.slice(0, max + 1).search(/\s\S{0,400}$/);
  return reason.slice(0, end < 0 ? max : end).toWellFormed();
}

/** The next agent has written its first checkpoint. */
export function resume(decision: Decision, firstId: string): void {
  const { task } = decision;
  const { checkpoint_id, attempts } = budgetOf(task);
  decision.add("resume", {
    facts: { attempt: attempts, first_checkpoint: firstId },
    event: {
      type: "RECOVERY_COMPLETED",
      data: {
        checkpointId: checkpoint_id ?? firstId,
        newAgentId: decision.circumstances.actor,
        taskId: task.task_id,
        firstCheckpointId: firstId,
        attempt: attempts,
      },
    },
  });
}

/** Ends an open recovery without changing its budget, or restores the budget after progress. */
export function settle(decision: Decision, reason: "progress" | "superseded", facts: AuditFacts = {}): void {
  const { task_id: taskId } = decision.task;
  decision.add("settle", {
    facts: { reason, ...facts },
    event: { type: "RECOVERY_SETTLED", data: { taskId, reason } },
  });
}

/** Ends a recovery that waits, was attempted or is blocked, because the task is handed off instead. */
export function supersedeRecovery(decision: Decision): void {
  const state = recoveryStateOf(decision.task);
  if (state !== "idle" && state !== "resumed") settle(decision, "superseded");
}

/**
 * Settles the recovery of a task that an agent took by name. If the recovery waited and an agent took the task, this counts as the
 * attempt that was due; otherwise an agent that crashes at every start would never spend the budget. An agent is a taker that promises
 * heartbeats, under any name, or that has the name of the failed one. An operator's take counts nothing.
 */
export function settleTaken(decision: Decision, before: TaskRecord, promisesHeartbeats: boolean): void {
  const { work, budget } = before;
  const isBlocked = work.kind === "blocked" && work.taken_by === null;
  if (work.kind !== "recovering" && !isBlocked) return;
  const failure = budget?.failure ?? null;
  const isFailed = failure?.agent_id === decision.circumstances.actor;
  const isAttempt =
    work.kind === "recovering" &&
    work.stage === "waiting" &&
    failure !== null &&
    failure.signal !== "request" &&
    (promisesHeartbeats || isFailed);
  const agentType = failure?.agent_type ?? before.agent_type;
  const { rung } = budgetOf(before);
  settle(decision, "superseded", isAttempt ? { ...countedAttempt(decision, agentType), rung } : {});
}

export interface Retry {
  readonly choice: RecoveryChoice | null;
  /** Restores the whole budget. */
  readonly reset: boolean;
  /** The policy's own attempt at a blocked task; if it fails, the task is blocked again. */
  readonly isProbe: boolean;
  /** The failure of the owner that loses the task by it. */
  readonly failure: RecoveryFailure | null;
}

/** Makes another attempt due now. */
export function retry(decision: Decision, { choice, reset, isProbe, failure }: Retry): void {
  const { task } = decision;
  decision.add("retry", {
    facts: {
      owner_from: task.owner,
      owner_to: null,
      reset: reset ? "yes" : "no",
      ...(isProbe && { probe: "yes" }),
    },
    event: {
      type: "RECOVERY_REQUESTED",
      data: {
        taskId: task.task_id,
        previousOwner: task.owner,
        fence: task.fence + 1,
        reason: choice?.reason ?? null,
      },
    },
    texts: { failure, choice },
  });
}

/** The failure that an accepted handoff's lapse stands for. */
export function lapsedFailure({ accepted_by, to_agent_type, fence, accepted_at }: Handoff) {
  return {
    class: "timeout",
    signal: "handoff_lapsed",
    agent_id: accepted_by,
    agent_type: to_agent_type,
    fence: fence ?? 0,
    details: "it accepted the task and wrote no checkpoint",
    resets_at: null,
    last_sign_at: accepted_at,
  } as const;
}

/** The failure that a handoff of a corrupt checkpoint stands for. */
export function corruptFailure(
  { to_agent_type, from_agent_type, failure, ended_at }: Handoff,
  fence: number,
) {
  return {
    class: "corrupt_state",
    signal: "handoff_rejected",
    agent_id: null,
    agent_type: to_agent_type ?? from_agent_type,
    fence,
    details: failure?.details ?? null,
    resets_at: null,
    last_sign_at: ended_at,
  } as const;
}
