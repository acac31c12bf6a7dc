/** Verifies the compact form of a signed token (RFC 7515) with one public key, offline. No claim is judged here. */
import { constants, createPublicKey, type KeyObject, verify } from "node:crypto";
import type { EsignProof } from "../../protocol/esign.ts";

type Verify = (key: KeyObject, signed: Uint8Array, signature: Uint8Array) => boolean;

const rsa =
  (padding: number): Verify =>
  (key, signed, signature) =>
    key.asymmetricKeyType === "rsa" &&
    verify(
      "sha256",
      signed,
      padding === constants.RSA_PKCS1_PSS_PADDING
        ? { key, padding, saltLength: constants.RSA_PSS_SALTLEN_DIGEST }
        : { key, padding },
      signature,
    );

const ecdsa =
  (hash: string, curve: string): Verify =>
  (key, signed, signature) =>
    key.asymmetricKeyDetails?.namedCurve === curve &&
    verify(hash, signed, { key, dsaEncoding: "ieee-p1363" }, signature);

const eddsa: Verify = (key, signed, signature) =>
  key.asymmetricKeyType === "ed25519" && verify(null, signed, key, signature);

/** The key decides with the algorithm: one of another kind verifies nothing. */
const ALGORITHMS: Readonly<Record<string, Verify>> = {
  RS256: rsa(constants.RSA_PKCS1_PADDING),
  PS256: rsa(constants.RSA_PKCS1_PSS_PADDING),
  ES256: ecdsa("sha256", "prime256v1"),
  ES384: ecdsa("sha384", "secp384r1"),
  EdDSA: eddsa,
  Ed25519: eddsa,
};

export type TokenClaims = Readonly<Record<string, unknown>>;

/** The claims of the token. null: its signature is not that of the key. */
export function verifiedClaims({ id_token: token, jwk }: EsignProof): TokenClaims | null {
  try {
    const [header = "", payload = "", signature = "", ...rest] = token.split(".");
    const { alg, crit } = objectIn(header);
    const isSignature = Object.hasOwn(ALGORITHMS, String(alg)) ? ALGORITHMS[String(alg)] : undefined;
    if (rest.length > 0 || crit !== undefined || isSignature === undefined) return null;
    const key = createPublicKey({ key: jwk, format: "jwk" });
    const signed = Buffer.from(`${header}.${payload}`);
    return isSignature(key, signed, Buffer.from(signature, "base64url")) ? objectIn(payload) : null;
  } catch {
    return null;
  }
}

function objectIn(part: string): TokenClaims {
  const value: unknown = JSON.parse(Buffer.from(part, "base64url").toString());
  if (typeof value !== "object" || value === null) throw new TypeError("a part of a token is an object");
  return value as TokenClaims;
}
