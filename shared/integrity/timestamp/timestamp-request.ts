/** The request for a time-stamp (RFC 3161) of the SHA-256 of some bytes. */
import { createHash, randomBytes } from "node:crypto";

export interface TimestampRequest {
  /** DER. */
  readonly bytes: Uint8Array;
  /** Repeated in the response, so that an older response is none to this request. */
  readonly nonce: Uint8Array;
}

const NONCE_BYTES = 8;
/** A sequence of 67 bytes with version 1 and an imprint, which is a sequence with SHA-256 and a hash of 32 bytes. */
const BEFORE_HASH = Buffer.from("30430201013031300d060960864801650304020105000420", "hex");
/** The nonce is a number of eight bytes. */
const BEFORE_NONCE = Buffer.from("0208", "hex");
/** With its certificates in the response, a verifier has them also after years. */
const CERTIFICATES_WANTED = Buffer.from("0101ff", "hex");

export function timestampRequest(content: Uint8Array): TimestampRequest {
  const nonce = randomBytes(NONCE_BYTES);
  // A positive number of full length, which has one encoding only.
  nonce[0] = (nonce[0]! & 0x7f) | 0x40;
  const hash = createHash("sha256").update(content).digest();
  return { bytes: Buffer.concat([BEFORE_HASH, hash, BEFORE_NONCE, nonce, CERTIFICATES_WANTED]), nonce };
}
