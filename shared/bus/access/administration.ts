/**
 * Issues, lists and revokes credentials with the keys in a fleet's home. Only the fleet's user can read them.
 * A revocation is in the register before the server gets it, so a server that starts later refuses them too.
 */
import { createUser, encodeUser, fmtCreds } from "@nats-io/jwt";
import { connect } from "@nats-io/transport-node";
import type { Role } from "../../protocol/roles.ts";
import { busError } from "../bus-errors.ts";
import { type ConnectBusOptions, tlsOptions } from "../connection.ts";
import { accountClaims, issueCredentials } from "./claims.ts";
import { credentialsAuthenticator } from "./credentials-file.ts";
import { withNodeCrypto } from "./key-pair.ts";
import { type FleetKeys, openKeys } from "./keys.ts";
import { appendGrant, type RegisteredGrant, readGrants, revocationsOf } from "./register/grants.ts";
import { noteRights } from "./register/rights-history.ts";

const UPDATE_MS = 5_000;

export interface IssueOptions {
  readonly role: Role;
  readonly tenant: string;
  /** The token of the principal in subjects. */
  readonly name: string;
  /** null: no end. */
  readonly expiresAt: Date | null;
  /** Of the API key that will have the credentials. Default: null, all that the role may do. */
  readonly scopes?: readonly string[] | null;
  readonly now: Date;
}

export interface IssuedCredentials {
  readonly grant: RegisteredGrant;
  /** The content of a credentials file. It is nowhere else. */
  readonly credentials: string;
}

export async function issueGrant(
  folder: string,
  { role, tenant, name, expiresAt, scopes = null, now }: IssueOptions,
): Promise<IssuedCredentials> {
  const keys = openKeys(folder);
  const { id, text } = await issueCredentials(
    {
      role,
      tenant,
      name,
      ...(expiresAt !== null && { expiresAt: Math.ceil(expiresAt.getTime() / 1_000) }),
    },
    { account: keys.account.getPublicKey(), signer: keys.roles[role] },
  );
  const grant = {
    id,
    role,
    tenant,
    name,
    issued_at: now.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
  };
  appendGrant(folder, { issued: grant, ...(scopes !== null && { scopes: [...scopes] }) });
  return { grant: { ...grant, scopes, revoked_at: null }, credentials: text };
}

/** Revokes what `selects` chooses of the valid credentials. Returns the revoked ones. */
export function revokeGrants(
  folder: string,
  selects: (grant: RegisteredGrant) => boolean,
  now: Date,
): RegisteredGrant[] {
  const revoked_at = now.toISOString();
  const chosen = readGrants(folder).filter((grant) => grant.revoked_at === null && selects(grant));
  for (const { id } of chosen) appendGrant(folder, { revoked: { id, at: revoked_at } });
  return chosen.map((grant) => ({ ...grant, revoked_at }));
}

/** Gives the running server the current revocations. It closes the connections of revoked credentials. Throws BusError. */
export async function updateServer(folder: string, o: Pick<ConnectBusOptions, "url" | "tls">): Promise<void> {
  const keys = openKeys(folder);
  noteRights(folder, new Date());
  const claims = await accountClaims(keys, revocationsOf(readGrants(folder)));
  const credentials = await systemCredentials(keys);
  try {
    const connection = await connect({
      servers: o.url,
      name: "fleet-access",
      timeout: UPDATE_MS,
      reconnect: false,
      ...tlsOptions(o),
      authenticator: credentialsAuthenticator(() => credentials),
    });
    try {
      const answer = await connection.request("$SYS.REQ.CLAIMS.UPDATE", claims, { timeout: UPDATE_MS });
      const { error } = answer.json<{ readonly error?: { readonly description?: string } }>();
      if (error !== undefined) throw new Error(error.description ?? "the server refused the claims");
    } finally {
      await connection.close();
    }
  } catch (error) {
    throw busError(error, { url: o.url });
  }
}

async function systemCredentials(keys: FleetKeys): Promise<string> {
  const user = withNodeCrypto(createUser());
  return Buffer.from(fmtCreds(await encodeUser("fleet-access", user, keys.system), user)).toString();
}
