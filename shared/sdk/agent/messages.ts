/** Triggers and errors as texts for a checkpoint. */
import type { FiredTrigger, TriggerReason } from "../../protocol/checkpoint.ts";
import { redactedReason } from "../../protocol/redaction.ts";

const TRIGGERS: Readonly<Record<string, { readonly reason: TriggerReason; readonly text: string }>> = {
  context_utilization: { reason: "context_overflow", text: "the context is filling up" },
  error_count: { reason: "error", text: "too many errors" },
  rate_limit: { reason: "error", text: "the vendor refuses requests" },
  phase_complete: { reason: "phase_transition", text: "the phase is complete" },
};

function numbers({ value, expected, threshold }: FiredTrigger): string {
  const now = value === undefined ? [] : [rounded(value)];
  const next = expected === undefined ? [] : [`${rounded(expected)} after the next step`];
  const all = [...now, ...next];
  return all.length === 0 ? "" : `: ${all.join(", ")}, over ${threshold}`;
}

const rounded = (value: number): string => String(Number(value.toFixed(3)));

/** The reason of a checkpoint that a trigger causes. Without a trigger, the caller requested the handoff. */
export function triggerOf(fired: FiredTrigger | undefined): TriggerReason {
  return (fired && TRIGGERS[fired.reason]?.reason) ?? "handoff";
}

/** The text of a trigger or an error, no longer than the reason of a handoff may be. */
export function reasonText(what: unknown): string {
  if (what instanceof Error) return redactedReason(`${what.name}: ${what.message}`);
  const fired = what as FiredTrigger | undefined;
  const known = fired && TRIGGERS[fired.reason];
  if (known) return known.text + numbers(fired);
  return redactedReason(String(fired?.reason ?? what));
}
