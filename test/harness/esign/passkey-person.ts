// A person with passkeys for tests of records: the authenticators are software, and the provider is a key of this process.

import {
  enrolmentNonce,
  enrolmentPayload,
  fixedSignature,
  signCountOf,
} from "../../../shared/integrity/esign/passkey.ts";
import { esignNonce, esignPayload } from "../../../shared/integrity/esign/statement.ts";
import {
  ESIGN_PAYLOAD_TYPE,
  type EsignStatement,
  type SignatureAnswer,
} from "../../../shared/protocol/esign.ts";
import type { EsignProof, StoredEnrolment } from "../../../shared/protocol/esign-proof.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { loginOf, type newProvider, PROVIDER, statementOf } from "./signed-statement.ts";
import { SoftwareAuthenticator } from "./software-authenticator.ts";

type Provider = Awaited<ReturnType<typeof newProvider>>;

export interface EnrolledKey {
  readonly authenticator: SoftwareAuthenticator;
  readonly enrolment: StoredEnrolment;
  readonly subject: string;
}

const TENANT = "default";

/** The enrolment of an authenticator for a person. `provider`: of a forger. */
export async function enrolledKey(
  subject = "ada",
  authenticator = new SoftwareAuthenticator(),
  provider?: Provider,
): Promise<EnrolledKey> {
  const id = { issuer: PROVIDER, subject };
  const { credentialId: credential_id, jwk } = authenticator;
  const payload = enrolmentPayload({
    ...{ v: 1, tenant: TENANT, signer: { id, printed_name: "Ada Lovelace" } },
    passkey: { credential_id, jwk, rp_id: "localhost" },
    ...{ enrolled_at: new Date().toISOString(), policy: "0".repeat(64) },
  });
  const login = await loginOf(id, enrolmentNonce(payload), provider);
  return { authenticator, enrolment: { payload: payload.toString("base64"), ...login }, subject };
}

let commands = 0;

/** Adds a signature of the person as the writer does it, when it has verified the answer of the passkey. */
export async function signWithKey(
  repository: CheckpointRepository,
  { authenticator, enrolment, subject }: EnrolledKey,
  count?: number,
): Promise<SignatureAnswer> {
  commands += 1;
  const reason = `statement ${commands}`;
  const statement = await statementOf(repository, { task: "task-1", subject, changes: { reason } });
  const asked = { challenge: esignNonce(esignPayload(statement)), ...(count !== undefined && { count }) };
  const { credentialId, authenticatorData, clientData, signature } = authenticator.answer(asked);
  const proof: EsignProof = {
    ...{ kind: "webauthn", authenticator_data: authenticatorData, client_data: clientData },
    signature: fixedSignature(Buffer.from(signature, "base64url"))!.toString("base64url"),
    enrolment,
  };
  const signCount = signCountOf(authenticatorData);
  return repository.esignatures.add(callerOf(reason), {
    statement,
    signed: signedBy(statement, proof),
    passkey: { credentialId, rpId: "localhost", enrolment, signCount },
  });
}

const signedBy = (statement: EsignStatement, proof: EsignProof) => ({
  ...{ payload_type: ESIGN_PAYLOAD_TYPE, payload: esignPayload(statement).toString("base64"), proof },
});

const callerOf = (requestHash: string) => ({
  actor: { tenant: TENANT, agent: "human=ada", task: "task-1" },
  commandId: `019bef72-3d00-7a31-b5c4-${String(commands).padStart(12, "0")}`,
  fence: undefined,
  requestHash,
  traceparent: undefined,
});
