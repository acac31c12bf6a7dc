/** Bounds the work for a hostile bundle: the verifier in Python computes each signature of a certificate in milliseconds. */
import { createHash } from "node:crypto";
import {
  type CertifiedSignature,
  isCertifiedSignature,
  type SignatureCheck,
} from "../../../../integrity/timestamp/certificates.ts";

/** Different ones in one bundle. Each time-stamp has its own, and those of an authority share its certificates. */
const CHECKS_MAX = 2_000;

/** The bundle needs more work than a verifier does. */
export class TooMuchWork extends Error {
  override readonly name = "TooMuchWork";
}

export class CertificateChecks {
  readonly #known = new Map<string, boolean>();

  /** Throws TooMuchWork. */
  readonly check: SignatureCheck = (certificate, signed) => {
    const of = checkName(certificate.publicKey.whole, signed);
    const known = this.#known.get(of);
    if (known !== undefined) return known;
    if (this.#known.size >= CHECKS_MAX) throw new TooMuchWork();
    const isSigned = isCertifiedSignature(certificate, signed);
    this.#known.set(of, isSigned);
    return isSigned;
  };
}

function checkName(
  publicKey: Buffer,
  { algorithm, digest = "", text, signature }: CertifiedSignature,
): string {
  const hashes = [publicKey, text, signature].map((bytes) =>
    createHash("sha256").update(bytes).digest("hex"),
  );
  return [algorithm, digest, ...hashes].join("\n");
}
