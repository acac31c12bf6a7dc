/** The texts of a handoff as they leave the store: without the secrets that agents and operators wrote into them. */

import type { Handoff } from "../../protocol/handoff-record.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { redact } from "../../protocol/redaction.ts";

/** The replacement of a secret may be longer than the secret. */
export function redactedReason(reason: string): string {
  return redact(reason).text.slice(0, LIMITS.handoff_reason_chars_max).toWellFormed();
}

export function redactedHandoff(handoff: Handoff): Handoff {
  const { reason, failure } = handoff;
  return {
    ...handoff,
    reason: reason && redactedReason(reason),
    failure: failure && { ...failure, details: failure.details && redactedReason(failure.details) },
  };
}
