/** The enrolment of a passkey, as bytes, and the nonce by which a token is bound to it. */
import { createHash } from "node:crypto";
import {
  PASSKEY_PAYLOAD_TYPE,
  type PasskeyEnrolment,
  passkeyEnrolmentSchema,
} from "../../protocol/esign-proof.ts";
import { canonicalText, sha256Hex } from "../canonical.ts";
import { signedBytes } from "../dsse.ts";
import { parseJson } from "../json.ts";
import { tokenPart } from "./token-signature.ts";

export function enrolmentPayload(enrolment: PasskeyEnrolment): Buffer {
  return Buffer.from(canonicalText(enrolment));
}

/** null: the bytes are not the canonical form of an enrolment. */
export function enrolmentFrom(payload: Uint8Array): PasskeyEnrolment | null {
  try {
    const parsed = passkeyEnrolmentSchema.safeParse(parseJson(payload));
    if (!parsed.success) return null;
    return enrolmentPayload(parsed.data).equals(payload) ? parsed.data : null;
  } catch {
    return null;
  }
}

/** The nonce of the step-up by which a person enrols a passkey. */
export const enrolmentNonce = (payload: Uint8Array): string =>
  createHash("sha256").update(signedBytes(PASSKEY_PAYLOAD_TYPE, payload)).digest("base64url");

/** The name of a passkey in a fleet. `credentialId`: as the browser gives it, in base64url. */
export const passkeyIdOf = (credentialId: string): string => sha256Hex(credentialId);

const COUNT_AT = 33;

/** The number of signatures that the authenticator has counted; 0: it does not count. */
export function signCountOf(authenticatorData: string): number {
  return Buffer.from(authenticatorData, "base64url").readUInt32BE(COUNT_AT);
}

/** The page on which the person signed. */
export function pageOriginOf(clientData: string): unknown {
  return tokenPart(clientData).origin;
}

/** The form of an ECDSA signature in browsers is DER; the stored one has r and s with 32 bytes each. null: it is no such DER. */
export function fixedSignature(der: Uint8Array): Buffer | null {
  const bytes = Buffer.from(der);
  if (bytes[0] !== 0x30 || bytes[1] !== bytes.length - 2) return null;
  const r = derInteger(bytes, 2);
  const s = r === null ? null : derInteger(bytes, r.end);
  return r === null || s === null || s.end !== bytes.length ? null : Buffer.concat([r.value, s.value]);
}

const SCALAR_BYTES = 32;

function derInteger(bytes: Buffer, at: number): { readonly value: Buffer; readonly end: number } | null {
  const length = bytes[at + 1] ?? 0;
  const start = at + 2;
  const end = start + length;
  if (bytes[at] !== 0x02 || length < 1 || end > bytes.length) return null;
  const isPadded = bytes[start] === 0 && length > 1;
  const digits = bytes.subarray(isPadded ? start + 1 : start, end);
  // A padding that is not needed, a negative number, or a longer one.
  if (isPadded && digits[0]! < 0x80) return null;
  if ((!isPadded && digits[0]! >= 0x80) || digits.length > SCALAR_BYTES) return null;
  return { value: Buffer.concat([Buffer.alloc(SCALAR_BYTES - digits.length), digits]), end };
}
