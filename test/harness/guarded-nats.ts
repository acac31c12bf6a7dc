// A real nats-server that requires credentials, with the keys of a fleet in a folder of its own.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, credsAuthenticator, type NatsConnection } from "@nats-io/transport-node";
import { type Grant, issueCredentials, serverClaims } from "../../shared/bus/access/claims.ts";
import { type FleetKeys, openKeys } from "../../shared/bus/access/keys.ts";
import { readGrants, revocationsOf } from "../../shared/bus/access/register/grants.ts";
import { isServiceRole, type ServiceRole } from "../../shared/protocol/roles.ts";
import { startNats, type TestNats } from "./processes/nats.ts";

export interface GuardedNats extends TestNats {
  readonly keys: FleetKeys;
  /** The folder of the keys. */
  readonly access: string;
  issue(grant: Grant): Promise<{ readonly text: string; readonly id: string }>;
  /** A plain connection with the inbox of its principal. */
  connectAs(grant: Grant): Promise<NatsConnection>;
}

/** A service has no tenant. */
export const serviceGrant = (role: ServiceRole): Grant => ({ role, tenant: "=", name: role });

export async function startGuardedNats(): Promise<GuardedNats> {
  const access = mkdtempSync(join(tmpdir(), "fleet-access-"));
  const keys = openKeys(access);
  const nats = await startNats({ claims: () => serverClaims(keys, revocationsOf(readGrants(access))) });
  const issue = (grant: Grant) =>
    issueCredentials(grant, { account: keys.account.getPublicKey(), signer: keys.roles[grant.role] });
  return Object.assign(Object.create(nats) as TestNats, {
    keys,
    access,
    issue,
    async connectAs(grant: Grant) {
      const { text } = await issue(grant);
      const inboxPrefix = isServiceRole(grant.role)
        ? `_INBOX.=${grant.role}.test`
        : `_INBOX.${grant.tenant}.${grant.name}`;
      return connect({
        servers: nats.url,
        inboxPrefix,
        authenticator: credsAuthenticator(Buffer.from(text)),
      });
    },
    async stop() {
      await nats.stop();
      rmSync(access, { recursive: true, force: true });
    },
  });
}
