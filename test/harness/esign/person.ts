// What a person does who signs through the SDK: a statement, and a login or a passkey for it.

import type { EsignStatement } from "../../../shared/protocol/esign.ts";
import type { PasskeyEnrolment } from "../../../shared/protocol/esign-proof.ts";
import {
  type FleetClient,
  nonceOfEnrolment,
  nonceOfStatement,
  type PasskeyAnswer,
} from "../../../shared/sdk/sdk.ts";
import type { IdentityProvider } from "./identity-provider.ts";
import type { SoftwareAuthenticator } from "./software-authenticator.ts";

/** The statement about the newest version of the task, for a login at `provider`, or at another one that the tenant has. */
export async function statementAt(
  provider: IdentityProvider,
  client: FleetClient,
  taskId: string,
  changes: Partial<EsignStatement> = {},
): Promise<EsignStatement> {
  const { subject, issuers } = await client.admin.esign.request({ taskId });
  const { issuer, policy } = issuers.find((one) => one.issuer === provider.url) ?? issuers[0]!;
  return {
    v: 1,
    subject,
    signer: { id: { issuer, subject: "ada" }, printed_name: "Ada Lovelace" },
    meaning: "approval",
    signed_at: new Date().toISOString(),
    zone: "Europe/London",
    policy,
    ...changes,
  };
}

export async function signAt(
  provider: IdentityProvider,
  client: FleetClient,
  taskId: string,
  changes: Partial<EsignStatement> = {},
): Promise<void> {
  const statement = await statementAt(provider, client, taskId, changes);
  await client.admin.esign.add(statement, await provider.token({ nonce: nonceOfStatement(statement) }));
}

/** The enrolment of the authenticator for the signer of the statement, with a login for it. */
export async function enrolmentAt(
  provider: IdentityProvider,
  { subject, signer, policy }: EsignStatement,
  { credentialId: credential_id, jwk }: SoftwareAuthenticator,
  changes: Partial<PasskeyEnrolment> = {},
): Promise<NonNullable<PasskeyAnswer["enrolment"]>> {
  const statement: PasskeyEnrolment = {
    v: 1,
    tenant: subject.tenant,
    signer,
    passkey: { credential_id, jwk, rp_id: "localhost" },
    enrolled_at: new Date().toISOString(),
    policy,
    ...changes,
  };
  return { statement, idToken: await provider.token({ nonce: nonceOfEnrolment(statement) }) };
}

/** Signs with the authenticator, which it enrols. */
export async function signWithPasskeyAt(
  provider: IdentityProvider,
  client: FleetClient,
  taskId: string,
  authenticator: SoftwareAuthenticator,
) {
  const statement = await statementAt(provider, client, taskId);
  const enrolment = await enrolmentAt(provider, statement, authenticator);
  const answer = authenticator.answer({ challenge: nonceOfStatement(statement) });
  return client.admin.esign.addWithPasskey(statement, { ...answer, enrolment });
}
