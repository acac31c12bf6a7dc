/** What happened, in the words that go into a checkpoint. */
import type { FiredTrigger, TriggerReason } from "../../protocol/checkpoint.ts";
import { LIMITS } from "../../protocol/limits.ts";

const TRIGGERS: Readonly<Record<string, { readonly reason: TriggerReason; readonly text: string }>> = {
  context_utilization: { reason: "context_overflow", text: "the context is filling up" },
  error_count: { reason: "error", text: "too much went wrong" },
  rate_limit: { reason: "error", text: "the vendor refuses requests" },
  phase_complete: { reason: "phase_transition", text: "the phase is complete" },
};

const numbers = ({ value, threshold }: FiredTrigger): string =>
  value === undefined ? "" : `: ${Number(value.toFixed(3))}, over ${threshold}`;

/** The reason of a checkpoint that is written because of a trigger; without one, somebody asked. */
export function triggerOf(fired: FiredTrigger | undefined): TriggerReason {
  return (fired && TRIGGERS[fired.reason]?.reason) ?? "handoff";
}

/** A trigger or an error for people; no longer than a handoff's reason may be. */
export function reasonText(what: unknown): string {
  if (what instanceof Error) return shortened(`${what.name}: ${what.message}`);
  const fired = what as FiredTrigger | undefined;
  const known = fired && TRIGGERS[fired.reason];
  if (known) return known.text + numbers(fired);
  return shortened(String(fired?.reason ?? what));
}

/** Half a character at its end would have the whole command refused. */
const shortened = (text: string): string => text.slice(0, LIMITS.handoff_reason_chars_max).toWellFormed();
