/**
 * Triggers: the signs that an agent should hand its task over. A pure comparison of the values in a
 * checkpoint with the thresholds that the policy sets for its tenant and agent type. The writer evaluates
 * every checkpoint and records the fired triggers in it. The SDK evaluates between checkpoints.
 */
import type { FiredTrigger, UnsealedCheckpoint } from "./checkpoint.ts";
import type { Policy } from "./policy.ts";

export const HANDOFF_TRIGGERS = [
  "context_utilization",
  "error_count",
  "rate_limit",
  "phase_complete",
  "explicit_request",
] as const;
export type HandoffTrigger = (typeof HANDOFF_TRIGGERS)[number];

/** Without `task_complete`: that one is decided when a checkpoint is finalized, in `shared/lifecycle`. */
export type TriggerThresholds = Omit<Policy["triggers"], "task_complete">;

/** The values that triggers are evaluated from. */
export interface TriggerSigns {
  /** The used fraction of the context window, from 0 to 1. */
  readonly contextUtilization?: number | undefined;
  readonly errorCount?: number | undefined;
  /** The vendor refuses requests now. */
  readonly isRateLimited: boolean;
  readonly isPhaseComplete: boolean;
  /** The agent, its orchestrator or an operator asked for a handoff. No threshold can switch this off. */
  readonly isRequested: boolean;
}

/**
 * The fired triggers in the order of {@link HANDOFF_TRIGGERS}; the first is the reason to report. A threshold
 * must be exceeded, not reached.
 */
export function evaluateTriggers(signs: TriggerSigns, thresholds: TriggerThresholds): FiredTrigger[] {
  const fired: FiredTrigger[] = [];
  passed(fired, "context_utilization", signs.contextUtilization, thresholds.context_utilization);
  passed(fired, "error_count", signs.errorCount, thresholds.error_count);
  if (signs.isRateLimited && thresholds.rate_limit) fired.push({ reason: "rate_limit" });
  if (signs.isPhaseComplete && thresholds.phase_complete) fired.push({ reason: "phase_complete" });
  if (signs.isRequested) fired.push({ reason: "explicit_request" });
  return fired;
}

/** The trigger values in a checkpoint. */
export function signsOf({
  metadata,
  metrics,
}: Pick<UnsealedCheckpoint, "metrics"> & {
  readonly metadata: { readonly trigger: { readonly reason: string } };
}): TriggerSigns {
  const { reason } = metadata.trigger;
  return {
    contextUtilization: metrics.context_utilization ?? derivedUtilization(metrics),
    errorCount: metrics.error_count,
    isRateLimited: metrics.rate_limit !== undefined,
    isPhaseComplete: reason === "phase_transition",
    isRequested: reason === "handoff",
  };
}

function passed(
  fired: FiredTrigger[],
  reason: HandoffTrigger,
  value: number | undefined,
  threshold: number | null,
): void {
  if (value === undefined || threshold === null || value <= threshold) return;
  fired.push({ reason, threshold, value });
}

/** The utilization for agents that report only tokens and the size of the window. The total stands in for a missing `context_tokens`. */
function derivedUtilization({
  context_limit: limit = 0,
  tokens_consumed: total,
  context_tokens: used = total,
}: UnsealedCheckpoint["metrics"]): number | undefined {
  return limit > 0 ? Math.min(1, used / limit) : undefined;
}
