/** The request for a time-stamp (RFC 3161) of the SHA-256 of some bytes. */
import { randomBytes } from "node:crypto";

export interface TimestampRequest {
  /** DER. */
  readonly bytes: Uint8Array;
  /** Repeated in the response, so that an older response is none to this request. */
  readonly nonce: Uint8Array;
}

const NONCE_BYTES = 8;

export async function timestampRequest(content: Uint8Array): Promise<TimestampRequest> {
  const [{ MessageImprint, TimeStampReq }, { Integer }] = await Promise.all([
    import("pkijs"),
    import("asn1js"),
  ]);
  const nonce = randomBytes(NONCE_BYTES);
  // A positive number of full length, which has one encoding only.
  nonce[0] = (nonce[0]! & 0x7f) | 0x40;
  const request = new TimeStampReq({
    version: 1,
    messageImprint: await MessageImprint.create("SHA-256", new Uint8Array(content)),
    nonce: new Integer({ valueHex: new Uint8Array(nonce).buffer }),
    // A verifier has the certificate of the authority then, also after years.
    certReq: true,
  });
  return { bytes: new Uint8Array(request.toSchema().toBER(false)), nonce };
}
