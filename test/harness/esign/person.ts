// What a person does who signs through the SDK: a statement, and a login for it.

import type { EsignStatement } from "../../../shared/protocol/esign.ts";
import { type FleetClient, nonceOfStatement } from "../../../shared/sdk/sdk.ts";
import type { IdentityProvider } from "./identity-provider.ts";

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

export async function signAt(provider: IdentityProvider, client: FleetClient, taskId: string): Promise<void> {
  const statement = await statementAt(provider, client, taskId);
  await client.admin.esign.add(statement, await provider.token({ nonce: nonceOfStatement(statement) }));
}
