/**
 * Triggers: the signs that an agent should hand its task to a fresh one. Pure: what a checkpoint says on one side, the thresholds that the
 * policy has for its tenant and agent type on the other. The writer evaluates every checkpoint and records what fired in it; the SDK
 * evaluates between checkpoints.
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

export type TriggerThresholds = Policy["triggers"];

/** What there is to go by. */
export interface TriggerSigns {
  /** The part of the context window that is full, from 0 to 1. */
  readonly contextUtilization?: number | undefined;
  readonly errorCount?: number | undefined;
  /** The vendor refuses requests at present. */
  readonly isRateLimited: boolean;
  readonly isPhaseComplete: boolean;
  /** Somebody asked for it: the agent itself, its orchestrator, a person. No threshold can switch this off. */
  readonly isRequested: boolean;
}

/** What fired, in the order of {@link HANDOFF_TRIGGERS}: the first is the reason to give. A threshold must be passed, not only reached. */
export function evaluateTriggers(signs: TriggerSigns, thresholds: TriggerThresholds): FiredTrigger[] {
  const fired: FiredTrigger[] = [];
  passed(fired, "context_utilization", signs.contextUtilization, thresholds.context_utilization);
  passed(fired, "error_count", signs.errorCount, thresholds.error_count);
  if (signs.isRateLimited && thresholds.rate_limit) fired.push({ reason: "rate_limit" });
  if (signs.isPhaseComplete && thresholds.phase_complete) fired.push({ reason: "phase_complete" });
  if (signs.isRequested) fired.push({ reason: "explicit_request" });
  return fired;
}

/** The signs that a checkpoint holds. */
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

/** For those who name only the tokens in their window and its size. */
function derivedUtilization({
  context_limit: limit = 0,
  tokens_consumed: consumed,
}: UnsealedCheckpoint["metrics"]): number | undefined {
  return limit > 0 ? Math.min(1, consumed / limit) : undefined;
}
