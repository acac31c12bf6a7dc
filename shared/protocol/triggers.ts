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
  /** The used fraction of the context window; above 1, the reported limit is exceeded. */
  readonly contextUtilization?: number | undefined;
  /** The fraction after another step as large as the largest recent one. */
  readonly expectedUtilization?: number | undefined;
  readonly errorCount?: number | undefined;
  /** The vendor refuses requests now. */
  readonly isRateLimited: boolean;
  readonly isPhaseComplete: boolean;
  /** The agent, its orchestrator or an operator asked for a handoff. No threshold can switch this off. */
  readonly isRequested: boolean;
}

/**
 * The fired triggers in the order of {@link HANDOFF_TRIGGERS}; the first is the reason to report. A threshold
 * must be exceeded, not reached. The context is judged one step ahead: an agent that waited until its context
 * is over the threshold would hand off with a context that is too full (seed 000: under 70 % at a handoff).
 */
export function evaluateTriggers(signs: TriggerSigns, thresholds: TriggerThresholds): FiredTrigger[] {
  const fired: FiredTrigger[] = [];
  contextPassed(fired, signs, thresholds.context_utilization);
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
  execution_state: work,
}: Pick<UnsealedCheckpoint, "metrics" | "execution_state"> & {
  readonly metadata: { readonly trigger: { readonly reason: string } };
}): TriggerSigns {
  const { reason } = metadata.trigger;
  return {
    contextUtilization: utilizationOf(metrics),
    expectedUtilization: isDone(work) ? undefined : expectedUtilization(metrics),
    errorCount: metrics.error_count,
    isRateLimited: metrics.rate_limit !== undefined,
    isPhaseComplete: reason === "phase_transition",
    isRequested: reason === "handoff",
  };
}

/** All items are completed: no step follows that could fill the context. */
function isDone({ completed_items, pending_items }: UnsealedCheckpoint["execution_state"]): boolean {
  return completed_items.length > 0 && pending_items.length === 0;
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

function contextPassed(fired: FiredTrigger[], signs: TriggerSigns, threshold: number | null): void {
  const { contextUtilization: value, expectedUtilization: expected } = signs;
  const before = fired.length;
  passed(fired, "context_utilization", value, threshold);
  const isExpected = expected !== undefined && threshold !== null && expected > threshold;
  if (fired.length === before && isExpected) {
    fired.push({ reason: "context_utilization", expected, threshold, ...(value !== undefined && { value }) });
  }
}

type Metrics = UnsealedCheckpoint["metrics"];

/** The used fraction of the context: from its tokens and its limit, else as the agent reported it. Above 1: over the limit. */
export function utilizationOf(metrics: Metrics): number | undefined {
  return fractionOf(metrics, metrics.context_tokens) ?? metrics.context_utilization;
}

function expectedUtilization(metrics: Metrics): number | undefined {
  const { context_tokens: used, context_step_tokens: step } = metrics;
  return used === undefined || step === undefined ? undefined : fractionOf(metrics, used + step);
}

function fractionOf({ context_limit: limit = 0 }: Metrics, used: number | undefined): number | undefined {
  return limit > 0 && used !== undefined ? used / limit : undefined;
}
