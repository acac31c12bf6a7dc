/** Verifies the compact form of a signed token (RFC 7515) with one public key, offline. No claim is judged here. */
import { constants, type KeyObject, verify } from "node:crypto";
import { parseJsonText } from "../../protocol/json.ts";
import { exactBase64Url, providerKey, type TokenAlgorithm } from "./provider-key.ts";

type Verify = (key: KeyObject, signed: Uint8Array, signature: Uint8Array) => boolean;

const rsa =
  (padding: number): Verify =>
  (key, signed, signature) =>
    verify(
      "sha256",
      signed,
      padding === constants.RSA_PKCS1_PSS_PADDING
        ? { key, padding, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
        : { key, padding },
      signature,
    );

const ecdsa =
  (hash: string): Verify =>
  (key, signed, signature) =>
    verify(hash, signed, { key, dsaEncoding: "ieee-p1363" }, signature);

const eddsa: Verify = (key, signed, signature) => verify(null, signed, key, signature);

const ALGORITHMS: Readonly<Record<TokenAlgorithm, Verify>> = {
  RS256: rsa(constants.RSA_PKCS1_PADDING),
  PS256: rsa(constants.RSA_PKCS1_PSS_PADDING),
  ES256: ecdsa("sha256"),
  ES384: ecdsa("sha384"),
  EdDSA: eddsa,
  Ed25519: eddsa,
};

export type TokenClaims = Readonly<Record<string, unknown>>;

/** A token, and the key that verifies it. */
export interface TokenProof {
  readonly id_token: string;
  readonly jwk: Readonly<Record<string, unknown>>;
}

/** The claims of the token. null: its signature is not that of the key. */
export function verifiedClaims({ id_token: token, jwk }: TokenProof): TokenClaims | null {
  try {
    const [header = "", payload = "", signature = "", ...rest] = token.split(".");
    const { alg, crit } = tokenPart(header);
    if (rest.length > 0 || crit !== undefined || !isAlgorithm(alg)) return null;
    const bytes = exactBase64Url(signature);
    if (bytes === null || !isTokenSignature({ alg, jwk }, Buffer.from(`${header}.${payload}`), bytes))
      return null;
    return tokenPart(payload);
  } catch {
    return null;
  }
}

/** Throws for a signature of another length than that of the algorithm. */
export function isTokenSignature(
  { alg, jwk }: { readonly alg: TokenAlgorithm; readonly jwk: TokenProof["jwk"] },
  signed: Uint8Array,
  signature: Uint8Array,
): boolean {
  const key = providerKey(jwk, alg);
  return key !== null && ALGORITHMS[alg](key, signed, signature);
}

function isAlgorithm(value: unknown): value is TokenAlgorithm {
  return typeof value === "string" && Object.hasOwn(ALGORITHMS, value);
}

/** Verifiers in other languages read less deep. The parts of a token have a few objects and lists. */
const BRACKETS_MAX = 100;

/** A JSON object in base64url. Throws for other text, and for one with more brackets than any token has. */
export function tokenPart(part: string): TokenClaims {
  const bytes = exactBase64Url(part);
  if (bytes === null) throw new TypeError("a part of a token is base64url");
  const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  if (text.split(/[[{]/).length - 1 > BRACKETS_MAX) throw new RangeError("a part of a token is not so deep");
  const value = parseJsonText(text);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new TypeError("a part of a token is an object");
  return value as TokenClaims;
}
