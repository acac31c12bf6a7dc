/**
 * Verifies what an authenticator has signed (Web Authentication, level 2, section 7.2), offline. EXPORT.md states the rules for other verifiers. Only the
 * three algorithms that all authenticators share are accepted, and each key and signature in one form only.
 */
import { createHash } from "node:crypto";
import { isOriginOf } from "../../protocol/passkey-origin.ts";
import { exactBase64Url, providerKey, type TokenAlgorithm } from "./provider-key.ts";
import { isTokenSignature, type TokenClaims, tokenPart } from "./token-signature.ts";

/** In base64url. */
export interface Assertion {
  readonly authenticator_data: string;
  readonly client_data: string;
  /** That of an elliptic curve is r and s, with 32 bytes each. */
  readonly signature: string;
}

/** Of an enrolled passkey. */
export interface PasskeyKey {
  readonly jwk: Readonly<Record<string, unknown>>;
  readonly rp_id: string;
}

/** `assertion`: its form or its signature. `assurance`: the authenticator did not verify the person. */
export type AssertionFault = "assertion" | "nonce" | "origin" | "assurance";

const RP_HASH_BYTES = 32;
const HEAD_BYTES = 37;
const USER_PRESENT = 1;
const USER_VERIFIED = 4;

const ALGORITHM_OF: Readonly<Record<string, TokenAlgorithm>> = { EC: "ES256", OKP: "EdDSA", RSA: "RS256" };

/** null: the key is of no accepted kind, or has another form. */
export function passkeyAlgorithm(jwk: PasskeyKey["jwk"]): TokenAlgorithm | null {
  const { kty } = jwk;
  const alg = typeof kty === "string" && Object.hasOwn(ALGORITHM_OF, kty) ? ALGORITHM_OF[kty]! : null;
  return alg !== null && providerKey(jwk, alg) !== null ? alg : null;
}

/** null: the person has signed exactly this challenge, on a page of the domain. */
export function assertionFault(
  assertion: Assertion,
  { jwk, rp_id }: PasskeyKey,
  challenge: string,
): AssertionFault | null {
  const data = exactBase64Url(assertion.authenticator_data);
  const client = signedClientData(assertion, jwk, data);
  if (data === null || client === null || client.type !== "webauthn.get") return "assertion";
  if (client.challenge !== challenge) return "nonce";
  const rpHash = createHash("sha256").update(rp_id).digest();
  const isOfPage =
    rpHash.equals(data.subarray(0, RP_HASH_BYTES)) &&
    typeof client.origin === "string" &&
    isOriginOf(rp_id, client.origin) &&
    client.crossOrigin !== true;
  if (!isOfPage) return "origin";
  const flags = data[RP_HASH_BYTES]!;
  return (flags & USER_PRESENT) !== 0 && (flags & USER_VERIFIED) !== 0 ? null : "assurance";
}

/** null: its signature is not that of the key, or it is no JSON object. */
function signedClientData(
  { client_data, signature: encoded }: Assertion,
  jwk: PasskeyKey["jwk"],
  data: Buffer | null,
): TokenClaims | null {
  try {
    const [client, signature] = [exactBase64Url(client_data), exactBase64Url(encoded)];
    const alg = passkeyAlgorithm(jwk);
    if (data === null || data.length < HEAD_BYTES || client === null || signature === null || alg === null)
      return null;
    const signed = Buffer.concat([data, createHash("sha256").update(client).digest()]);
    return isTokenSignature({ alg, jwk }, signed, signature) ? tokenPart(client_data) : null;
  } catch {
    return null;
  }
}
