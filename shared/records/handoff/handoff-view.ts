/** The texts of a handoff as they leave the store: without the secrets that agents and operators wrote into them. */
import type { Handoff } from "../../protocol/handoff-record.ts";
import { redactedReason } from "../../protocol/redaction.ts";

export function redactedHandoff(handoff: Handoff): Handoff {
  const { reason, failure } = handoff;
  return {
    ...handoff,
    reason: reason && redactedReason(reason),
    failure: failure && { ...failure, details: failure.details && redactedReason(failure.details) },
  };
}
