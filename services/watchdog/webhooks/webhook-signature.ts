/** How a receiver knows that an alert is from this fleet: signed as in the Standard Webhooks specification. */
import { createHmac } from "node:crypto";
import { webhookKey } from "../../../shared/protocol/webhook-settings.ts";

export interface Signed {
  readonly id: string;
  /** Of the attempt, in seconds since the epoch: a receiver refuses old ones, so that nobody can play one back. */
  readonly timestamp: number;
  readonly body: string;
}

/** The value of `webhook-signature`. */
export function signatureOf(secret: string, { id, timestamp, body }: Signed): string {
  const key = webhookKey(secret);
  if (key === undefined) throw new TypeError("the secret of a webhook was checked when it was read");
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}
