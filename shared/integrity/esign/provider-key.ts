/**
 * The public keys of identity providers (RFC 7517, RFC 7518, RFC 8037), each in one form of text only, so that two
 * verifiers never differ about one. EXPORT.md states the rules for other verifiers.
 */
import { createPublicKey, type KeyObject } from "node:crypto";
import { isUsablePoint } from "../dsse.ts";

export type TokenAlgorithm = "RS256" | "PS256" | "ES256" | "ES384" | "EdDSA" | "Ed25519";

const RSA_BITS = { min: 2_048, max: 8_192 };
/** 65,537, which is that of all providers. */
const RSA_EXPONENT = "AQAB";

type JwkMembers = Readonly<Record<string, string>>;

/** null: the key is of another kind than the algorithm, or has another form. */
export function providerKey(
  jwk: Readonly<Record<string, unknown>>,
  algorithm: TokenAlgorithm,
): KeyObject | null {
  const members = membersFor(jwk, algorithm);
  try {
    return members === null ? null : createPublicKey({ key: members, format: "jwk" });
  } catch {
    return null;
  }
}

function membersFor(jwk: Readonly<Record<string, unknown>>, algorithm: TokenAlgorithm): JwkMembers | null {
  const { kty, crv, n, e, x, y } = jwk;
  switch (algorithm) {
    case "RS256":
    case "PS256": {
      const modulus = exactBase64Url(n);
      if (kty !== "RSA" || e !== RSA_EXPONENT || modulus === null || !isModulus(modulus)) return null;
      return { kty, n: String(n), e };
    }
    case "ES256":
    case "ES384": {
      const [curve, length] = algorithm === "ES256" ? ["P-256", 32] : ["P-384", 48];
      const isPoint = exactBase64Url(x)?.length === length && exactBase64Url(y)?.length === length;
      return kty === "EC" && crv === curve && isPoint ? { kty, crv, x: String(x), y: String(y) } : null;
    }
    default: {
      const point = exactBase64Url(x);
      const isKey = kty === "OKP" && crv === "Ed25519" && point?.length === 32 && isUsablePoint(point);
      return isKey ? { kty, crv, x: String(x) } : null;
    }
  }
}

/** An even number is none. OpenSSL refuses it, but arithmetic of its own would find valid signatures. */
function isModulus(bytes: Uint8Array): boolean {
  const [first = 0] = bytes;
  const isOdd = ((bytes.at(-1) ?? 0) & 1) === 1;
  const bits = 8 * bytes.length - (Math.clz32(first) - 24);
  return first !== 0 && isOdd && bits >= RSA_BITS.min && bits <= RSA_BITS.max;
}

/** null: it is no base64url without padding, or another text for the same bytes. */
export function exactBase64Url(text: unknown): Buffer | null {
  if (typeof text !== "string") return null;
  const bytes = Buffer.from(text, "base64url");
  return bytes.toString("base64url") === text ? bytes : null;
}
