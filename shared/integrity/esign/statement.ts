/** The statement that a person signs, as bytes, and the nonce by which a token is bound to it. */
import { createHash } from "node:crypto";
import { ESIGN_PAYLOAD_TYPE, type EsignStatement, esignStatementSchema } from "../../protocol/esign.ts";
import type { EsignIssuerSettings } from "../../protocol/esign-settings.ts";
import { canonicalText, sha256Hex } from "../canonical.ts";
import { signedBytes } from "../dsse.ts";
import { parseJson } from "../json.ts";

export function esignPayload(statement: EsignStatement): Buffer {
  return Buffer.from(canonicalText(statement));
}

/** null: the bytes are not the canonical form of a statement. So a statement has one form of bytes. */
export function statementFrom(payload: Uint8Array): EsignStatement | null {
  try {
    const parsed = esignStatementSchema.safeParse(parseJson(payload));
    if (!parsed.success) return null;
    return esignPayload(parsed.data).equals(payload) ? parsed.data : null;
  } catch {
    return null;
  }
}

const digestOf = (payload: Uint8Array): Buffer =>
  createHash("sha256").update(signedBytes(ESIGN_PAYLOAD_TYPE, payload)).digest();

/** SHA-256 of the signed bytes (PAE), hex. */
export const statementHash = (payload: Uint8Array): string => digestOf(payload).toString("hex");

/** The nonce of the step-up: the same hash in base64url. */
export const esignNonce = (payload: Uint8Array): string => digestOf(payload).toString("base64url");

/** What the rules for an issuer were when the person signed. */
export const esignPolicy = (settings: EsignIssuerSettings): string => sha256Hex(canonicalText(settings));
