/** Judges the proof of an electronic signature against its statement, offline. That the key of a token was the provider's is the statement of the fleet. */
import type { EsignProblem, EsignStatement } from "../../protocol/esign.ts";
import type { EsignProof, PasskeyProof } from "../../protocol/esign-proof.ts";
import type { SignerId } from "../../protocol/esign-signer.ts";
import { canonicalText, sha256Hex } from "../canonical.ts";
import { exactBase64 } from "../merkle/note.ts";
import { assertionFault } from "./assertion.ts";
import { enrolmentFrom, enrolmentNonce } from "./passkey.ts";
import { esignNonce } from "./statement.ts";
import { type TokenProof, verifiedClaims } from "./token-signature.ts";

/**
 * Proofs that were verified, the newest last, by the hashes of the whole proof, as it is stored, and of the statement: a display of a checkpoint judges the same ones each
 * time, and a key and a signature cost much more than two hashes. One that does not verify is judged again.
 */
const verified = new Set<string>();
const VERIFIED_MAX = 2_000;

/** null: the person has signed the statement, which is that of the payload. */
export function proofProblem(
  proof: EsignProof,
  statement: EsignStatement,
  payload: Uint8Array,
): EsignProblem | null {
  const nonce = esignNonce(payload);
  const name = `${sha256Hex(JSON.stringify(proof))} ${nonce}`;
  if (verified.has(name)) return null;
  const problem =
    proof.kind === "oidc"
      ? loginProblem(proof, statement.signer.id, nonce)
      : passkeyProblem(proof, statement, nonce);
  if (problem !== null) return problem;
  verified.add(name);
  const [oldest] = verified;
  if (verified.size > VERIFIED_MAX && oldest !== undefined) verified.delete(oldest);
  return null;
}

function loginProblem(
  token: TokenProof,
  { issuer, subject }: SignerId,
  nonce: string,
): "proof_invalid" | "proof_mismatch" | null {
  const claims = verifiedClaims(token);
  if (claims === null) return "proof_invalid";
  return claims.iss === issuer && claims.sub === subject && claims.nonce === nonce ? null : "proof_mismatch";
}

function passkeyProblem(
  { enrolment: stored, ...assertion }: PasskeyProof,
  { signer, subject }: EsignStatement,
  nonce: string,
): EsignProblem | null {
  const payload = exactBase64(stored.payload);
  const enrolment = payload === null ? null : enrolmentFrom(payload);
  if (payload === null || enrolment === null) return "proof_invalid";
  const fault = assertionFault(assertion, enrolment.passkey, nonce);
  if (fault === "assertion") return "proof_invalid";
  const problem = loginProblem(stored, signer.id, enrolmentNonce(payload));
  if (problem !== null) return problem;
  const isOfSigner =
    canonicalText(enrolment.signer) === canonicalText(signer) && enrolment.tenant === subject.tenant;
  return fault === null && isOfSigner ? null : "proof_mismatch";
}

/** Covers all that verifies the signature, so that nothing of it is exchanged later. */
export function proofHash(proof: EsignProof): string {
  return sha256Hex(canonicalText(proof.kind === "oidc" ? tokenOf(proof) : passkeyOf(proof)));
}

const tokenOf = ({ kind, id_token, jwk }: Extract<EsignProof, { kind: "oidc" }>) => ({ kind, id_token, jwk });

function passkeyOf({ kind, authenticator_data, client_data, signature, enrolment }: PasskeyProof) {
  const { payload, id_token, jwk } = enrolment;
  return {
    ...{ kind, authenticator_data, client_data, signature },
    enrolment: { payload, id_token, jwk },
  };
}
