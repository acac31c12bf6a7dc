/**
 * The signed claims that the server trusts: the operator, the account of the server itself, and the account of
 * the fleet with one scoped signing key for each role. The permissions of a role are in the account, not in the
 * credentials, so a change of the table applies to all issued credentials.
 */
import {
  type Account,
  createUser,
  encodeAccount,
  encodeOperator,
  encodeUser,
  fmtCreds,
  type KeyPair,
  newScopedSigner,
} from "@nats-io/jwt";
import { invalid } from "../../protocol/errors.ts";
import { isToken } from "../../protocol/ids.ts";
import { isServiceRole, ROLES, type Role, rightsOf } from "../../protocol/permissions.ts";
import { isPrincipal } from "../../protocol/principal.ts";
import { withNodeCrypto } from "./key-pair.ts";
import type { FleetKeys } from "./keys.ts";

/** The server fills them in from the credentials. */
const TEMPLATE = { tenant: "{{tag(tenant)}}", name: "{{name()}}" };
const UNLIMITED = { subs: -1, data: -1, payload: -1 };
const ACCOUNT_LIMITS = {
  ...UNLIMITED,
  conn: -1,
  leaf: 0,
  imports: 0,
  exports: 0,
  wildcards: false,
  disallow_bearer: true,
};
const JETSTREAM_LIMITS = {
  mem_storage: -1,
  disk_storage: -1,
  streams: -1,
  consumer: -1,
  mem_max_stream_bytes: -1,
  disk_max_stream_bytes: -1,
  max_bytes_required: false,
  max_ack_pending: -1,
};

/** The public key of a user, and the time in seconds up to which its credentials are revoked. */
export type Revocations = Readonly<Record<string, number>>;

export interface ServerClaims {
  readonly operator: string;
  readonly system: { readonly name: string; readonly jwt: string };
  readonly account: { readonly name: string; readonly jwt: string };
}

export async function serverClaims(keys: FleetKeys, revocations: Revocations): Promise<ServerClaims> {
  const system = keys.system.getPublicKey();
  return {
    operator: await encodeOperator("fleet", keys.operator, { system_account: system }),
    system: {
      name: system,
      jwt: await encodeAccount("SYS", keys.system, { limits: ACCOUNT_LIMITS }, { signer: keys.operator }),
    },
    account: { name: keys.account.getPublicKey(), jwt: await accountClaims(keys, revocations) },
  };
}

export function accountClaims(keys: FleetKeys, revocations: Revocations): Promise<string> {
  const account: Account = {
    limits: { ...ACCOUNT_LIMITS, ...JETSTREAM_LIMITS },
    signing_keys: ROLES.map((role) => newScopedSigner(keys.roles[role].getPublicKey(), role, template(role))),
    revocations: { ...revocations },
  } as unknown as Account;
  return encodeAccount("FLEET", keys.account, account, { signer: keys.operator });
}

function template(role: Role) {
  const { publish, subscribe } = rightsOf(role, TEMPLATE);
  return { ...UNLIMITED, pub: { allow: [...publish] }, sub: { allow: [...subscribe] }, bearer_token: false };
}

export interface Grant {
  readonly role: Role;
  readonly tenant: string;
  /** The token of the principal in subjects. */
  readonly name: string;
  /** In seconds since the epoch. undefined: without an end. */
  readonly expiresAt?: number | undefined;
}

export interface Credentials {
  /** The content of a credentials file. */
  readonly text: string;
  /** The public key of the user, by which they are revoked. */
  readonly id: string;
}

/** `signer`: the signing key of the role. */
export async function issueCredentials(
  grant: Grant,
  { account, signer }: { readonly account: string; readonly signer: KeyPair },
): Promise<Credentials> {
  // The server puts them into its permissions, where a wildcard would allow more than one name.
  if (!isServiceRole(grant.role) && !(isPrincipal(grant.name) && isToken(grant.tenant)))
    throw invalid("name", "the token of a principal, in a tenant", `${grant.tenant}, ${grant.name}`);
  const user = withNodeCrypto(createUser());
  const jwt = await encodeUser(
    grant.name,
    user,
    signer,
    { issuer_account: account, tags: [`tenant:${grant.tenant}`] },
    { scopedUser: true, ...(grant.expiresAt !== undefined && { exp: grant.expiresAt }) },
  );
  return { text: Buffer.from(fmtCreds(jwt, user)).toString(), id: user.getPublicKey() };
}
