// Electronic signatures for tests of records: a person whose provider is a key of this process. The tests of fleets have a real provider.

import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { esignNonce, esignPayload } from "../../../shared/integrity/esign/statement.ts";
import type { EsignStatement } from "../../../shared/protocol/esign.ts";
import type { EsignKey, EsignProof } from "../../../shared/protocol/esign-proof.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";

export const PROVIDER = "https://login.example";
const keys = await generateKeyPair("ES256", { extractable: true });
const jwk = { ...(await exportJWK(keys.publicKey)), kid: "1" } as EsignKey;

interface Wanted {
  readonly tenant?: string;
  readonly task: string;
  readonly checkpointId?: string;
  readonly version?: number;
  readonly subject?: string;
  readonly changes?: Partial<EsignStatement>;
}

/** What a person would sign now. */
export async function statementOf(repository: CheckpointRepository, wanted: Wanted): Promise<EsignStatement> {
  const { tenant = "default", task, checkpointId: checkpoint_id, version, subject = "ada", changes } = wanted;
  const query = { task_id: task, checkpoint_id, version };
  return {
    v: 1,
    subject: await repository.esignatures.subject(tenant, query),
    signer: { id: { issuer: PROVIDER, subject }, printed_name: "Ada Lovelace" },
    meaning: "approval",
    signed_at: new Date().toISOString(),
    zone: "Europe/London",
    policy: "0".repeat(64),
    ...changes,
  };
}

/** The members of the command, with a token of the provider over the statement. */
export async function signedBody(statement: EsignStatement): Promise<{ payload: string; proof: EsignProof }> {
  const payload = esignPayload(statement);
  const id_token = await new SignJWT({ nonce: esignNonce(payload) })
    .setProtectedHeader({ alg: "ES256", kid: "1" })
    .setIssuer(statement.signer.id.issuer)
    .setSubject(statement.signer.id.subject)
    .setIssuedAt()
    .setExpirationTime("5m")
    .sign(keys.privateKey);
  return { payload: payload.toString("base64"), proof: { kind: "oidc", id_token, jwk } };
}

export async function esignBody(repository: CheckpointRepository, wanted: Wanted) {
  return signedBody(await statementOf(repository, wanted));
}
