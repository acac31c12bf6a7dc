/**
 * The digest of an offer. The handoff record keeps the digest of its latest offer, and `acknowledge` refuses any
 * other one, so an offer that was forged or edited on the bus makes no agent the owner.
 */
import { canonicalText, sha256Hex } from "./canonical.ts";

/** The SHA-256 of the canonical form of an offer's `data` without its member `digest`, in lower-case hex. */
export function offerDigest(data: object): string {
  const { digest: _digest, ...bound } = data as Readonly<Record<string, unknown>>;
  return sha256Hex(canonicalText(bound));
}
