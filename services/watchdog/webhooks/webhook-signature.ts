/** Signs a post as in the Standard Webhooks specification, so that its receiver can verify the sender. */
import { createHmac } from "node:crypto";
import { webhookKey } from "../../../shared/protocol/webhook-settings.ts";

export interface SignedPost {
  readonly id: string;
  /**
   * The time of the attempt, in seconds since the epoch. A receiver refuses old ones, which prevents replays.
   */
  readonly timestamp: number;
  readonly body: string;
}

/** The value of `webhook-signature`. */
export function signatureOf(secret: string, { id, timestamp, body }: SignedPost): string {
  const key = webhookKey(secret);
  if (key === undefined) throw new TypeError("the secret of a webhook was checked when it was read");
  return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
}
