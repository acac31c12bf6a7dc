/**
 * Judges the proof of an electronic signature in a bundle: the token of a login, or the signature of a passkey with the token of the
 * login for its enrolment.
 */
import { createHash } from "node:crypto";
import { signedBytes } from "../../../integrity/dsse.ts";
import { assertionFault } from "../../../integrity/esign/assertion.ts";
import { verifiedClaims } from "../../../integrity/esign/token-signature.ts";
import { exactBase64 } from "../../../integrity/merkle/note.ts";
import { type ExactObject, exactObjectIn, isExactObject, objectIn } from "./exact-json.ts";

const ENROLMENT_TYPE = "application/vnd.fleet.esign-passkey.v1+json";
const ENROLMENT_VERSION = 1;

export interface JudgedProof {
  readonly method: "oidc" | "webauthn";
  /** The value whose hash the audit entry has. */
  readonly hashed: ExactObject;
}
type ProofFault = "esign_proof" | "esign_mismatch";

/** `nonce`: the SHA-256 of the signed bytes of the statement, in base64url. */
export function judgeProof(
  proof: ExactObject,
  statement: ExactObject,
  nonce: string,
): ProofFault | JudgedProof {
  if (proof.kind === "webauthn") return judgePasskey(proof, statement, nonce);
  const person = objectIn(objectIn(statement, "signer"), "id");
  const fault = proof.kind === "oidc" ? loginFault(proof, person, nonce) : "esign_proof";
  const { kind, id_token, jwk } = proof as Required<ExactObject>;
  return fault ?? { method: "oidc", hashed: { kind: kind!, id_token: id_token!, jwk: jwk! } };
}

/** Whether the token is one of the person for this nonce. */
function loginFault({ id_token, jwk }: ExactObject, person: ExactObject, nonce: string): ProofFault | null {
  const claims =
    typeof id_token === "string" && isExactObject(jwk) ? verifiedClaims({ id_token, jwk }) : null;
  if (claims === null) return "esign_proof";
  const isMeant = claims.iss === person.issuer && claims.sub === person.subject && claims.nonce === nonce;
  return isMeant ? null : "esign_mismatch";
}

function judgePasskey(proof: ExactObject, statement: ExactObject, nonce: string): ProofFault | JudgedProof {
  const { authenticator_data, client_data, signature } = proof;
  const login = objectIn(proof, "enrolment");
  const payload = typeof login.payload === "string" ? exactBase64(login.payload) : null;
  const enrolment = payload === null ? null : exactObjectIn(payload);
  const isText = [authenticator_data, client_data, signature].every((part) => typeof part === "string");
  if (payload === null || enrolment === null || enrolment.v !== ENROLMENT_VERSION || !isText)
    return "esign_proof";
  const { jwk, rp_id } = objectIn(enrolment, "passkey");
  if (!isExactObject(jwk) || typeof rp_id !== "string") return "esign_proof";
  const assertion = { authenticator_data, client_data, signature } as Record<
    "authenticator_data" | "client_data" | "signature",
    string
  >;
  const fault = assertionFault(assertion, { jwk, rp_id }, nonce);
  if (fault === "assertion") return "esign_proof";
  const digest = createHash("sha256").update(signedBytes(ENROLMENT_TYPE, payload)).digest("base64url");
  const signer = objectIn(statement, "signer");
  const unproved = loginFault(login, objectIn(signer, "id"), digest);
  if (unproved !== null) return unproved;
  if (fault !== null || !isOfSigner(enrolment, signer, objectIn(statement, "subject")))
    return "esign_mismatch";
  const enrolled = { payload: login.payload!, id_token: login.id_token!, jwk: login.jwk! };
  return { method: "webauthn", hashed: { kind: "webauthn", ...assertion, enrolment: enrolled } };
}

/** Whether the enrolment states the person, the printed name and the tenant of the statement. */
function isOfSigner(enrolment: ExactObject, signer: ExactObject, subject: ExactObject): boolean {
  const enrolled = objectIn(enrolment, "signer");
  const [here, there] = [objectIn(signer, "id"), objectIn(enrolled, "id")];
  return (
    enrolment.tenant === subject.tenant &&
    enrolled.printed_name === signer.printed_name &&
    there.issuer === here.issuer &&
    there.subject === here.subject
  );
}
