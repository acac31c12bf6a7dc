// `fleet doctor` on a bus whose files are of an older version of Fleet: a service uses a right that they do not give.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Account, decode, encodeAccount } from "@nats-io/jwt";
import { afterAll, beforeAll, expect, test } from "vitest";
import { issueCredentials, type ServerClaims, serverClaims } from "../../../shared/bus/access/claims.ts";
import { type FleetKeys, openKeys } from "../../../shared/bus/access/keys.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import type { Role } from "../../../shared/protocol/roles.ts";
import { startNats, type TestNats } from "../../harness/processes/nats.ts";
import { startService, type TestService } from "../../harness/processes/services.ts";
import { checksOf, examine } from "./examination.ts";
import { prepareMachine } from "./operator-machine.ts";

const TEST_MS = 120_000;
const SOON = { timeout: 60_000, interval: 250 };
const machine = prepareMachine();
const { folder } = machine;

let nats: TestNats;
let writer: TestService;

interface ScopedSigner {
  readonly role: string;
  readonly template: { readonly pub: { allow: string[] } };
}

/** The files of the bus give the writer no right to publish alerts. */
async function olderClaims(keys: FleetKeys): Promise<ServerClaims> {
  const claims = await serverClaims(keys, {});
  const account = decode<Account>(claims.account.jwt).nats;
  const signers = (account as unknown as { signing_keys: ScopedSigner[] }).signing_keys;
  const { pub } = signers.find(({ role }) => role === "writer")!.template;
  expect(pub.allow).toContain("fleet.alert.>");
  pub.allow = pub.allow.filter((subject) => subject !== "fleet.alert.>");
  const jwt = await encodeAccount("FLEET", keys.account, account, { signer: keys.operator });
  return { ...claims, account: { ...claims.account, jwt } };
}

async function credentialsFile(keys: FleetKeys, role: Role, tenant: string, name: string): Promise<string> {
  const by = { account: keys.account.getPublicKey(), signer: keys.roles[role] };
  const path = join(folder, `${role}.creds`);
  writeFileSync(path, (await issueCredentials({ role, tenant, name }, by)).text, { mode: 0o600 });
  return path;
}

let operator: string;
beforeAll(async () => {
  const keys = openKeys(join(folder, "access"));
  nats = await startNats({ claims: () => olderClaims(keys) });
  operator = await credentialsFile(keys, "operator", DEFAULT_TENANT, "human=auditor");
  // It alerts at once that its disk is low.
  writer = await startService("writer", {
    FLEET_URL: nats.url,
    FLEET_NATS_MONITOR_URL: nats.monitorUrl ?? "",
    FLEET_STORE: `lmdb:${folder}/store`,
    FLEET_NATS_CREDS: await credentialsFile(keys, "writer", "=", "writer"),
    FLEET_DISK_MIN_FREE: `${1024 ** 2}GiB`,
  });
}, TEST_MS);
afterAll(async () => {
  await writer?.kill9();
  await nats?.stop();
});

test(
  "a right that the bus refuses to a service is a failure, with its name and the steps that give it",
  async () => {
    const env = {
      ...machine.forBus(nats.url),
      ...{ FLEET_NATS_CREDS: operator, FLEET_PERSON: "auditor" },
    };
    const rights = async () => checksOf(await examine(env), "services.rights");
    await expect.poll(rights, SOON).toMatchObject([
      {
        state: "failed",
        found: expect.stringMatching(`^the bus refused to writer/\\S+-${writer.pid}: publish fleet\\.alert$`),
        meaning: expect.stringContaining("its credentials do not permit it"),
        fix: expect.stringContaining("fleet access init"),
      },
    ]);
  },
  TEST_MS,
);
