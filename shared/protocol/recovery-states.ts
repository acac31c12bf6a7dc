/**
 * The vocabulary of recovery: its states, the signals of a failure, the recovery actions, and the reasons for
 * a block.
 */
import type { FailureClass } from "./exit-report.ts";

/**
 * `idle`: no recovery is open. `waiting`: an agent failed and lost the task; the next attempt is due.
 * `attempted`: a handoff from the recovery point was opened. `resumed`: the next agent has written; progress
 * restores the budget. `blocked`: an operator decides.
 */
export const RECOVERY_STATES = ["idle", "waiting", "attempted", "resumed", "blocked"] as const;
export type RecoveryState = (typeof RECOVERY_STATES)[number];

/** The states of an open recovery. */
export const RECOVERING_STATES = RECOVERY_STATES.filter((state) => state !== "idle");
export type RecoveringState = Exclude<RecoveryState, "idle">;

/** The signals of an agent's failure. */
export const FAILURE_SIGNALS = [
  /** The agent has sent no heartbeat for too long. */
  "lease_lapsed",
  /** The agent is alive, but the step that it declared is overdue. */
  "step_overdue",
  /** The runner, or the agent itself, reported how it ended. */
  "exit_report",
  /** The agent accepted a handoff and wrote nothing. */
  "handoff_lapsed",
  /** The checkpoint of a handoff does not verify. */
  "handoff_rejected",
  /** An operator requested it. */
  "request",
] as const;
export type FailureSignal = (typeof FAILURE_SIGNALS)[number];

/** The actions after a failure. */
export const RECOVERY_ACTIONS = [
  "retry",
  "back_off",
  /**
   * Waits until the vendor serves again. If the policy names another agent type that was not just refused
   * too, an agent of that type continues at once.
   */
  "after_reset",
  "other_agent_type",
  "previous_checkpoint",
  "block",
] as const;
export type RecoveryAction = (typeof RECOVERY_ACTIONS)[number];

/**
 * By failure class: the actions after the first failure, the second and so on since the budget was whole. The
 * last one repeats.
 */
export const DEFAULT_ACTIONS: Readonly<Record<FailureClass, readonly RecoveryAction[]>> = {
  // The agent reported success, but its task is not done.
  completed: ["retry", "back_off"],
  crash: ["retry", "back_off"],
  timeout: ["retry", "back_off"],
  out_of_memory: ["back_off"],
  rate_limit: ["after_reset"],
  // The next agent has an empty context.
  context_exhausted: ["retry", "back_off"],
  tool_error: ["back_off"],
  // Waiting does not help.
  corrupt_state: ["previous_checkpoint"],
  unrecoverable: ["block"],
  not_started: ["back_off"],
};

/** The details of an agent that its runner could not start begin with it. */
export const NOT_STARTED_PREFIX = "could not be started: ";

/** Where attempts start: the newest sound checkpoint, or the one before it. */
export const RECOVERY_RUNGS = ["latest", "previous"] as const;
export type RecoveryRung = (typeof RECOVERY_RUNGS)[number];

/** The reasons why a task has no recovery point. */
export const POINT_FAILURES = ["no_checkpoint", "chain_broken"] as const;
export type PointFailure = (typeof POINT_FAILURES)[number];

/** The reasons why a task waits for an operator. */
export const BLOCK_REASONS = [
  /** The attempts on all rungs were made. */
  "attempts_spent",
  /** Too many attempts in too short a time, even if they made progress. */
  "too_many_attempts",
  "unrecoverable",
  /** An ancestor of a checkpoint, or the audit trail, does not verify. */
  "chain_broken",
  /** No checkpoint was ever written, or no sound one is left. */
  "no_checkpoint",
  /** No agent accepted the task. */
  "no_agent",
  /** The task was handed to an agent type that does not exist. */
  "agent_type_unknown",
  /** No prompt for the next agent fits the policy's budget. */
  "prompt_over_budget",
  /** The handoff that should have continued the task was cancelled. */
  "withdrawn",
  /** The checkpoint of a handoff is corrupt. The watchdogs recover the task from an earlier one. */
  "checkpoint_corrupt",
] as const;
export type BlockReason = (typeof BLOCK_REASONS)[number];
