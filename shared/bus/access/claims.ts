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
import { rightsOf } from "../../protocol/permissions.ts";
import { isPrincipal } from "../../protocol/principal.ts";
import { isServiceRole, ROLES, type Role } from "../../protocol/roles.ts";
import { SUBJECTS } from "../../protocol/subjects.ts";
import { withNodeCrypto } from "./key-pair.ts";
import type { CalloutKeys, FleetKeys } from "./keys.ts";

/** The server fills them in from the credentials. */
const TEMPLATE = { tenant: "{{tag(tenant)}}", name: "{{name()}}" };
/** More than the time in which the server waits for an answer. */
const ANSWER_NS = 10_000_000_000;
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
    signing_keys: ROLES.map((role) => scopedKey(keys.roles[role].getPublicKey(), role)),
    revocations: { ...revocations },
  } as unknown as Account;
  return encodeAccount("FLEET", keys.account, account, { signer: keys.operator });
}

function scopedKey(key: string, role: Role) {
  const { publish, subscribe } = rightsOf(role, TEMPLATE);
  const { template, ...signer } = newScopedSigner(key, role, {
    ...UNLIMITED,
    pub: { allow: [...publish] },
    sub: { allow: [...subscribe] },
    bearer_token: false,
  });
  // The library's default lets a receiver of a request publish to the reply subject, and the sender can name any subject there.
  const { resp: _, ...fixed } = template;
  return { ...signer, template: fixed };
}

export interface Grant {
  readonly role: Role;
  readonly tenant: string;
  /** The token of the principal in subjects. */
  readonly name: string;
  /** In seconds since the epoch. undefined: without an end. */
  readonly expiresAt?: number | undefined;
}

export interface CalloutClaims {
  readonly account: { readonly name: string; readonly jwt: string };
  /** Names the account for connections without credentials of their own. It has no right. */
  readonly sentinel: string;
}

/**
 * The signing service has an account of its own, because the server asks it about every user of an account that it
 * serves. Holders of credentials files are users of the fleet's account, so they do not depend on it.
 */
export async function calloutClaims(keys: FleetKeys, callout: CalloutKeys): Promise<CalloutClaims> {
  const account: Account = {
    limits: { ...ACCOUNT_LIMITS, disallow_bearer: false },
    authorization: {
      auth_users: [callout.service.getPublicKey()],
      allowed_accounts: [keys.account.getPublicKey()],
      xkey: callout.curve.getPublicKey(),
    },
  } as unknown as Account;
  const nothing = { deny: [">"] };
  return {
    account: {
      name: callout.account.getPublicKey(),
      jwt: await encodeAccount("SIGNER", callout.account, account, { signer: keys.operator }),
    },
    sentinel: await encodeUser("sentinel", withNodeCrypto(createUser()), callout.account, {
      bearer_token: true,
      pub: nothing,
      sub: nothing,
    }),
  };
}

/** The credentials of the signing service for the callout: it receives requests and answers each once. */
export async function signerCredentials({ account, service }: CalloutKeys): Promise<string> {
  const jwt = await encodeUser("=signer", service, account, {
    pub: { deny: [">"] },
    sub: { allow: [SUBJECTS.authRequest] },
    resp: { max: 1, ttl: ANSWER_NS },
  });
  return Buffer.from(fmtCreds(jwt, service)).toString();
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
  const user = withNodeCrypto(createUser());
  const jwt = await userClaims(grant, user, { account, signer });
  return { text: Buffer.from(fmtCreds(jwt, user)).toString(), id: user.getPublicKey() };
}

/** `user`: the key of the connection's user, or its public name. */
export async function userClaims(
  grant: Grant,
  user: KeyPair | string,
  { account, signer }: { readonly account: string; readonly signer: KeyPair },
): Promise<string> {
  // The server puts them into its permissions, where a wildcard would allow more than one name.
  if (!isServiceRole(grant.role) && !(isPrincipal(grant.name) && isToken(grant.tenant)))
    throw invalid("name", "the token of a principal, in a tenant", `${grant.tenant}, ${grant.name}`);
  return encodeUser(
    grant.name,
    user,
    signer,
    { issuer_account: account, tags: [`tenant:${grant.tenant}`] },
    { scopedUser: true, ...(grant.expiresAt !== undefined && { exp: grant.expiresAt }) },
  );
}
