/**
 * The ids of durable messages. A stream drops a message whose id it has seen, so a client that can foresee the id
 * of an event could publish under it first, and the event would be lost. The ids of services are therefore made
 * with a key that only services have.
 */
import { createHmac, createSecretKey } from "node:crypto";

export interface MessageIds {
  /** The same for every copy of a message. */
  of(name: string): string;
  /** True if only services can make these ids. A reported copy that differs was then stored by mistake or attack. */
  readonly areSecret: boolean;
}

/** `key`: in hex. undefined: the names themselves are the ids, for clients. */
export function messageIds(key: string | undefined): MessageIds {
  if (key === undefined) return { of: (name) => name, areSecret: false };
  // Node needs seven times as long with the bytes of a key.
  const secret = createSecretKey(Buffer.from(key, "hex"));
  return {
    of: (name) => createHmac("sha256", secret).update(name).digest("base64url"),
    areSecret: true,
  };
}
