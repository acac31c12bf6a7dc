// Electronic signatures for tests of records: a person whose provider is a key of this process. The tests of fleets have a real provider.

import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { esignNonce, esignPayload } from "../../../shared/integrity/esign/statement.ts";
import type { EsignStatement } from "../../../shared/protocol/esign.ts";
import type { EsignKey, EsignProof } from "../../../shared/protocol/esign-proof.ts";
import type { SignerId } from "../../../shared/protocol/esign-signer.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";

export const PROVIDER = "https://login.example";

interface TestProvider {
  readonly privateKey: Awaited<ReturnType<typeof generateKeyPair>>["privateKey"];
  readonly jwk: EsignKey;
}

export async function newProvider(): Promise<TestProvider> {
  const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid: "1" } as EsignKey };
}

const known = await newProvider();

/** A login of the person for this nonce, with the key of its provider. */
export async function loginOf(
  { issuer, subject }: SignerId,
  nonce: string,
  { privateKey, jwk }: TestProvider = known,
): Promise<{ id_token: string; jwk: EsignKey }> {
  const id_token = await new SignJWT({ nonce })
    .setProtectedHeader({ alg: "ES256", kid: "1" })
    .setIssuer(issuer)
    .setSubject(subject)
    .setIssuedAt()
    .setExpirationTime("5m")
    .sign(privateKey);
  return { id_token, jwk };
}

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
  const login = await loginOf(statement.signer.id, esignNonce(payload));
  return { payload: payload.toString("base64"), proof: { kind: "oidc", ...login } };
}

export async function esignBody(repository: CheckpointRepository, wanted: Wanted) {
  return signedBody(await statementOf(repository, wanted));
}
