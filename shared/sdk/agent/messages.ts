/** Triggers and errors as texts for a checkpoint. */
import type { FiredTrigger, TriggerReason } from "../../protocol/checkpoint.ts";
import { redactedReason } from "../../protocol/redaction.ts";

const TRIGGERS: Readonly<Record<string, { readonly reason: TriggerReason; readonly text: string }>> = {
  context_utilization: { reason: "context_overflow", text: "the context is filling up" },
  error_count: { reason: "error", text: "too many errors" },
  rate_limit: { reason: "error", text: "the vendor refuses requests" },
  phase_complete: { reason: "phase_transition", text: "the phase is complete" },
};

function numbers({ reason, value, expected, threshold }: FiredTrigger): string {
  const shown = reason === "context_utilization" ? percent : String;
  const now = value === undefined ? [] : [shown(value)];
  const next = expected === undefined ? [] : [`${shown(expected)} after the next step`];
  const all = [...now, ...next];
  const over = threshold === undefined ? "" : `, over ${shown(threshold)}`;
  return all.length === 0 ? "" : `: ${all.join(", ")}${over}`;
}

const percent = (fraction: number): string => `${Number((fraction * 100).toFixed(1))} %`;

const isOverLimit = ({ reason, value = 0 }: FiredTrigger): boolean =>
  reason === "context_utilization" && value > 1;

/** The reason of a checkpoint that a trigger causes. Without a trigger, the caller requested the handoff. */
export function triggerOf(fired: FiredTrigger | undefined): TriggerReason {
  return (fired && TRIGGERS[fired.reason]?.reason) ?? "handoff";
}

/** The text of a trigger or an error, no longer than the reason of a handoff may be. */
export function reasonText(what: unknown): string {
  if (what instanceof Error) return redactedReason(`${what.name}: ${what.message}`);
  const fired = what as FiredTrigger | undefined;
  const known = fired && TRIGGERS[fired.reason];
  if (known) return (isOverLimit(fired) ? "the context is over its limit" : known.text) + numbers(fired);
  return redactedReason(String(fired?.reason ?? what));
}
