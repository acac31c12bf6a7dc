/**
 * The budget of recovery: the decision after a failure, as a pure function of the spent attempts, the failure and the policy. The ladder (attempts
 * from the latest sound checkpoint, then from the previous one) and the window bound the attempts under every policy (guarantee 11).
 */
import type { UnsealedCheckpoint } from "../protocol/checkpoint.ts";
import type { Policy } from "../protocol/policy.ts";
import type { RecoveryFailure } from "../protocol/recovery-record.ts";
import type { BlockReason, RecoveryAction, RecoveryRung } from "../protocol/recovery-states.ts";
import type { Budget } from "./task.ts";

export type FailureDecision =
  | {
      readonly do: "attempt";
      readonly action: RecoveryAction;
      readonly rung: RecoveryRung;
      readonly dueMs: number;
      readonly toAgentType: string | null;
    }
  | BlockDecision;

/** `dueMs`: the time of the probe; null: an operator decides. */
export interface BlockDecision {
  readonly do: "block";
  readonly reason: BlockReason;
  readonly dueMs: number | null;
}

/** The cap on how long a vendor's rate-limit reset is waited for. */
const RESET_MS_MAX = 24 * 3_600_000;
/** Spreads the attempts of many agents that one vendor refused. */
const SPREAD_MS = 5_000;

type Failed = Pick<RecoveryFailure, "class" | "agent_type" | "resets_at">;

export interface Now {
  readonly nowMs: number;
  /** From 0 to 1; spreads attempts that would otherwise coincide. */
  readonly random: () => number;
}

/** `budget`: before this failure. */
export function afterFailure(
  budget: Pick<Budget, "failures" | "rung" | "rung_attempts" | "recent" | "is_probe"> & {
    readonly failure: Failed | null;
  },
  failure: Failed,
  policy: Policy["recovery"],
  { nowMs, random }: Now,
): FailureDecision {
  const actions = policy.actions[failure.class];
  const action = actions[Math.min(budget.failures, actions.length - 1)] ?? "block";
  if (action === "block") return { do: "block", reason: "unrecoverable", dueMs: null };
  const probeMs = probeTime(budget.recent, policy, nowMs);
  const rung = budget.is_probe ? null : nextRung(budget, action, policy);
  if (rung === null) return { do: "block", reason: "attempts_spent", dueMs: probeMs };
  if (within(budget.recent, policy.window_ms, nowMs).length >= policy.window_attempts)
    return { do: "block", reason: "too_many_attempts", dueMs: probeMs };
  const other = otherType(failure.agent_type, policy);
  const pauseMs = backOffMs(budget.failures, policy, random);
  const attempt = { do: "attempt", action, rung, toAgentType: failure.agent_type } as const;
  switch (action) {
    case "retry":
    case "previous_checkpoint":
      return { ...attempt, dueMs: nowMs };
    case "back_off":
      return { ...attempt, dueMs: nowMs + pauseMs };
    case "other_agent_type":
      return other === null
        ? { ...attempt, dueMs: nowMs + pauseMs }
        : { ...attempt, dueMs: nowMs, toAgentType: other };
    case "after_reset": {
      const refused = stillRefused(budget.failure, other, nowMs);
      if (other !== null && refused === null) {
        const dueMs = isRoundOver(budget, failure, other, policy) ? nowMs + pauseMs : nowMs;
        return { ...attempt, dueMs, toAgentType: other };
      }
      // Both vendors refuse: alternating between them would spend the whole budget at once.
      const first = refused !== null && resetOf(refused) < resetOf(failure) ? refused : failure;
      const resetMs = resetOf(first);
      if (Number.isNaN(resetMs)) return { ...attempt, dueMs: nowMs + pauseMs };
      const waitMs = Math.min(Math.max(0, resetMs - nowMs), RESET_MS_MAX);
      return { ...attempt, dueMs: nowMs + waitMs + random() * SPREAD_MS, toAgentType: first.agent_type };
    }
  }
}

/** Blocks a task again after an agent took it while it was blocked and made no progress. */
export function blockAgain(
  reason: BlockReason,
  { recent }: Pick<Budget, "recent">,
  policy: Policy["recovery"],
  nowMs: number,
): BlockDecision {
  const isSpent = reason === "attempts_spent" || reason === "too_many_attempts";
  return { do: "block", reason, dueMs: isSpent ? probeTime(recent, policy, nowMs) : null };
}

/** The failure before this one, if the vendor of this agent type refused then and, as far as is known, still does. */
function stillRefused(before: Failed | null, agentType: string | null, nowMs: number): Failed | null {
  if (before?.class !== "rate_limit" || before.agent_type !== agentType) return null;
  return resetOf(before) <= nowMs ? null : before;
}

/** NaN: the vendor named no time. */
function resetOf({ resets_at: at }: Failed): number {
  return at === null ? Number.NaN : Date.parse(at);
}

/** null: the ladder ends. */
function nextRung(
  { rung, rung_attempts }: Pick<Budget, "rung" | "rung_attempts">,
  action: RecoveryAction,
  policy: Policy["recovery"],
): RecoveryRung | null {
  const isLatest = rung === "latest" && rung_attempts < policy.attempts && action !== "previous_checkpoint";
  if (isLatest) return "latest";
  const made = rung === "previous" ? rung_attempts : 0;
  return made < policy.previous_attempts ? "previous" : null;
}

function otherType(
  agentType: string | null,
  { other_agent_type: others }: Policy["recovery"],
): string | null {
  if (agentType === null || !Object.hasOwn(others, agentType)) return null;
  return others[agentType] ?? null;
}

/**
 * True if the policy leads from vendor to vendor in a ring and each of them has been asked: without a pause, a ring whose vendors all
 * refuse would spend the whole budget at once.
 */
function isRoundOver(
  { failures, failure: before }: { readonly failures: number; readonly failure: Failed | null },
  { agent_type: from }: Failed,
  next: string,
  policy: Policy["recovery"],
): boolean {
  if (before?.class !== "rate_limit") return false;
  const ring = new Set<string>();
  for (let type = from; type !== null && !ring.has(type); type = otherType(type, policy)) ring.add(type);
  // The next vendor refused last time, and serves again by now. If it refuses again, the time that it named cannot be right.
  if (before.agent_type === next) return failures > ring.size;
  return before.agent_type !== null && ring.has(before.agent_type) && failures + 1 >= ring.size;
}

/** Doubles with each failure up to the maximum; half of it is random. */
function backOffMs(
  failures: number,
  { back_off_ms: baseMs, back_off_max_ms: maxMs }: Policy["recovery"],
  random: () => number,
): number {
  return Math.min(maxMs, baseMs * 2 ** Math.min(failures, 30)) * (0.5 + random() / 2);
}

/** Not before the window has room for one more attempt. null: the policy makes no probes. */
function probeTime(recent: readonly string[], policy: Policy["recovery"], nowMs: number): number | null {
  const { half_open_ms: pauseMs, window_attempts: most, window_ms: windowMs } = policy;
  if (pauseMs === null) return null;
  const oldest = within(recent, windowMs, nowMs).at(-most);
  return Math.max(nowMs + pauseMs, oldest === undefined ? 0 : Date.parse(oldest) + windowMs);
}

/** The times that lie in the window. */
export function within(times: readonly string[], windowMs: number, nowMs: number): readonly string[] {
  return times.filter((at) => nowMs - Date.parse(at) < windowMs);
}

/** True if something of the budget is spent, so that progress restores it. */
export function isSpent({ resumed, failures, attempts }: Budget): boolean {
  return resumed || failures > 0 || attempts > 0;
}

/** Different completed items. Words, percentages and repeated items are no progress (guarantee 11). */
export function completedItems({ execution_state }: Pick<UnsealedCheckpoint, "execution_state">): number {
  const { completed_items: items } = execution_state;
  if (items.length === 0) return 0;
  return new Set(items.map((item) => ("id" in item && item.id) || item.title)).size;
}
