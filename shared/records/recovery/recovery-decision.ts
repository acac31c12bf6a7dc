/**
 * What is to be done about a failure: a pure function of the recovery so far, the failure and the policy. The ladder and the window bound
 * it, whatever the table of actions says (guarantee 11).
 */
import type { Policy } from "../../protocol/policy.ts";
import type { Recovery, RecoveryFailure } from "../../protocol/recovery-record.ts";
import type { BlockReason, RecoveryAction, RecoveryRung } from "../../protocol/recovery-states.ts";

export type Decision =
  | {
      readonly do: "attempt";
      readonly action: RecoveryAction;
      readonly rung: RecoveryRung;
      readonly dueMs: number;
      readonly toAgentType: string | null;
    }
  /** `dueMs`: when one more attempt is made all the same; null: when a person wants it. */
  | { readonly do: "block"; readonly reason: BlockReason; readonly dueMs: number | null };

/** A vendor that names a time further away than this is asked before. */
const RESET_MS_MAX = 24 * 3_600_000;

type Failed = Pick<RecoveryFailure, "class" | "agent_type" | "resets_at">;

/** `recovery`: as it was before this failure. `random`: from 0 to 1, spreads attempts that would come together. */
export function analyse(
  recovery: Pick<Recovery, "failures" | "rung" | "rung_attempts" | "recent" | "is_probe"> & {
    readonly failure: Failed | null;
  },
  failure: Failed,
  policy: Policy["recovery"],
  { nowMs, random }: { readonly nowMs: number; readonly random: () => number },
): Decision {
  const actions = policy.actions[failure.class];
  const action = actions[Math.min(recovery.failures, actions.length - 1)] ?? "block";
  if (action === "block") return { do: "block", reason: "unrecoverable", dueMs: null };
  const halfOpen = halfOpenMs(recovery.recent, policy, nowMs);
  const rung = recovery.is_probe ? null : rungOf(recovery, action, policy);
  if (rung === null) return { do: "block", reason: "attempts_spent", dueMs: halfOpen };
  if (within(recovery.recent, policy.window_ms, nowMs).length >= policy.window_attempts)
    return { do: "block", reason: "too_many_attempts", dueMs: halfOpen };
  const other = otherType(failure.agent_type, policy);
  const pauseMs = backOffMs(recovery.failures, policy, random);
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
      const refused = refusal(recovery.failure, other, nowMs);
      if (other !== null && refused === null) return { ...attempt, dueMs: nowMs, toAgentType: other };
      // Both vendors refuse: going to and fro between them would spend the whole budget in a moment.
      const first = refused !== null && resetOf(refused) < resetOf(failure) ? refused : failure;
      const resetMs = resetOf(first);
      if (Number.isNaN(resetMs)) return { ...attempt, dueMs: nowMs + pauseMs };
      const waitMs = Math.min(Math.max(0, resetMs - nowMs), RESET_MS_MAX);
      return { ...attempt, dueMs: nowMs + waitMs + random() * SPREAD_MS, toAgentType: first.agent_type };
    }
  }
}

/** Of a task that waits for a person, and that somebody had who got nothing done: it waits for the same. */
export function blockAgain(
  reason: BlockReason,
  { recent }: Pick<Recovery, "recent">,
  policy: Policy["recovery"],
  nowMs: number,
): Decision & { readonly do: "block" } {
  const isSpent = reason === "attempts_spent" || reason === "too_many_attempts";
  return { do: "block", reason, dueMs: isSpent ? halfOpenMs(recent, policy, nowMs) : null };
}

/** The failure before, when it was that the vendor of this agent type refused, and still does as far as is known. */
function refusal(before: Failed | null, agentType: string | null, nowMs: number): Failed | null {
  if (before?.class !== "rate_limit" || before.agent_type !== agentType) return null;
  return resetOf(before) <= nowMs ? null : before;
}

/** NaN: it did not say. */
function resetOf({ resets_at: at }: Failed): number {
  return at === null ? Number.NaN : Date.parse(at);
}

/** So that all whom one vendor refused do not come back at one moment. */
const SPREAD_MS = 5_000;

/** null: the ladder ends. */
function rungOf(
  { rung, rung_attempts }: Pick<Recovery, "rung" | "rung_attempts">,
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

/** Twice as long each time, of which a random half. */
function backOffMs(
  failures: number,
  { back_off_ms: baseMs, back_off_max_ms: maxMs }: Policy["recovery"],
  random: () => number,
): number {
  return Math.min(maxMs, baseMs * 2 ** Math.min(failures, 30)) * (0.5 + random() / 2);
}

/** Not before the window has room for one more: what half-opens does so for ever. null: never. */
function halfOpenMs(recent: readonly string[], policy: Policy["recovery"], nowMs: number): number | null {
  const { half_open_ms: pauseMs, window_attempts: most, window_ms: windowMs } = policy;
  if (pauseMs === null) return null;
  const oldest = within(recent, windowMs, nowMs).at(-most);
  return Math.max(nowMs + pauseMs, oldest === undefined ? 0 : Date.parse(oldest) + windowMs);
}

/** Those of the times that lie in the window. */
export function within(times: readonly string[], windowMs: number, nowMs: number): string[] {
  return times.filter((at) => nowMs - Date.parse(at) < windowMs);
}
