/** The words of recovery: its states, what signals a failure, what is done about it, and why a task is blocked. */
import type { FailureClass } from "./exit-report.ts";

/**
 * `idle`: no recovery is open. `waiting`: an agent failed and lost the task; the next attempt is due. `attempted`: a handoff from the
 * recovery point was made. `resumed`: the next agent has written; progress restores the budget. `blocked`: an operator decides.
 */
export const RECOVERY_STATES = ["idle", "waiting", "attempted", "resumed", "blocked"] as const;
export type RecoveryState = (typeof RECOVERY_STATES)[number];

/** The states of an open recovery. */
export const RECOVERING_STATES = RECOVERY_STATES.filter((state) => state !== "idle");
export type RecoveringState = Exclude<RecoveryState, "idle">;

/** What says that an agent failed. */
export const FAILURE_SIGNALS = [
  /** No sign of life for too long. */
  "lease_lapsed",
  /** It lives, but the step that it declared is overdue. */
  "step_overdue",
  /** Its runner, or the agent itself, says how it ended. */
  "exit_report",
  /** It took a task over and wrote nothing. */
  "handoff_lapsed",
  /** What it was to go on from does not verify. */
  "handoff_rejected",
  /** A person says so. */
  "request",
] as const;
export type FailureSignal = (typeof FAILURE_SIGNALS)[number];

/** What is done after a failure. */
export const RECOVERY_ACTIONS = [
  "retry",
  "back_off",
  /** When the vendor serves again; an agent of another type goes on at once where the policy names one that was not just refused too. */
  "after_reset",
  "other_agent_type",
  "previous_checkpoint",
  "block",
] as const;
export type RecoveryAction = (typeof RECOVERY_ACTIONS)[number];

/** By class, what is done after the first failure, the second and so on since the budget was whole; the last one repeats. */
export const DEFAULT_ACTIONS: Readonly<Record<FailureClass, readonly RecoveryAction[]>> = {
  // Ended well, it says, but its task is not done.
  completed: ["retry", "back_off"],
  crash: ["retry", "back_off"],
  timeout: ["retry", "back_off"],
  out_of_memory: ["back_off"],
  rate_limit: ["after_reset"],
  // The next agent has an empty context.
  context_exhausted: ["retry", "back_off"],
  tool_error: ["back_off"],
  // Waiting mends nothing.
  corrupt_state: ["previous_checkpoint"],
  unrecoverable: ["block"],
  not_started: ["back_off"],
};

/** From where attempts are made: the newest checkpoint that verifies, or the one before that. */
export const RECOVERY_RUNGS = ["latest", "previous"] as const;
export type RecoveryRung = (typeof RECOVERY_RUNGS)[number];

/** Why there is nothing to go on from. */
export const POINT_FAILURES = ["no_checkpoint", "chain_broken"] as const;
export type PointFailure = (typeof POINT_FAILURES)[number];

/** Why a task waits for a person. */
export const BLOCK_REASONS = [
  /** All attempts of the ladder were made. */
  "attempts_spent",
  /** Too many in too short a time, whatever they got done. */
  "too_many_attempts",
  "unrecoverable",
  /** What a checkpoint goes back to, or the audit trail, does not verify. */
  "chain_broken",
  /** Nothing was ever written, or nothing sound is left. */
  "no_checkpoint",
  /** Nobody took it, nobody has the type, or no prompt fits. */
  "no_agent",
  /** Somebody took the handoff back that would have brought it on. */
  "withdrawn",
  /** The checkpoint of a handoff is corrupt. The watchdogs recover the task from an earlier one. */
  "checkpoint_corrupt",
] as const;
export type BlockReason = (typeof BLOCK_REASONS)[number];
