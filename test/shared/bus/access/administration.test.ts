// Credentials from their issue to their end, against a real server: issued, expired, revoked while connected, kept over a restart.

import {
  appendFileSync,
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, credsAuthenticator, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { issueGrant, revokeGrants, updateServer } from "../../../../shared/bus/access/administration.ts";
import { issueCredentials } from "../../../../shared/bus/access/claims.ts";
import { openKeys } from "../../../../shared/bus/access/keys.ts";
import { issueLocally } from "../../../../shared/bus/access/local-credentials.ts";
import { appendGrant, readGrants, revocationsOf } from "../../../../shared/bus/access/register/grants.ts";
import { type GuardedNats, startGuardedNats } from "../../../harness/guarded-nats.ts";

let nats: GuardedNats;
beforeAll(async () => {
  nats = await startGuardedNats();
});
afterAll(() => nats?.stop());

const NEVER = { expiresAt: null, now: new Date() } as const;
const open = (credentials: string): Promise<NatsConnection> =>
  connect({
    servers: nats.url,
    reconnect: false,
    authenticator: credsAuthenticator(Buffer.from(credentials)),
  });
const refusal = (credentials: string): Promise<unknown> =>
  open(credentials).then(
    async (connection) => {
      await connection.close();
      return "connected";
    },
    (error: unknown) => String(error),
  );

test("a connection without credentials is refused", async () => {
  await expect(connect({ servers: nats.url, reconnect: false })).rejects.toThrow(/authorization/i);
});

test("issued credentials connect, and revoked ones lose their open connection and never connect again", async () => {
  const issued = await issueGrant(nats.access, { role: "agent", tenant: "t1", name: "leaver", ...NEVER });
  const other = await issueGrant(nats.access, { role: "agent", tenant: "t1", name: "stayer", ...NEVER });
  const [leaver, stayer] = [await open(issued.credentials), await open(other.credentials)];
  const revoked = revokeGrants(nats.access, ({ name }) => name === "leaver", new Date());
  expect(revoked.map(({ id }) => id)).toEqual([issued.grant.id]);
  await updateServer(nats.access, { url: nats.url });
  await leaver.closed();
  expect(await refusal(issued.credentials)).toMatch(/authorization|revoked/i);
  await stayer.flush();
  await stayer.close();
  expect(await refusal(other.credentials)).toBe("connected");
  await nats.restart();
  expect(await refusal(issued.credentials)).toMatch(/authorization|revoked/i);
  expect(await refusal(other.credentials)).toBe("connected");
});

test("credentials expire", async () => {
  const now = new Date();
  const expired = await issueGrant(nats.access, {
    role: "agent",
    tenant: "t1",
    name: "late",
    expiresAt: new Date(now.getTime() - 5_000),
    now,
  });
  expect(await refusal(expired.credentials)).toMatch(/authorization|expired/i);
});

test("credentials of one fleet are refused by another", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-foreign-"));
  const foreign = await issueGrant(folder, { role: "operator", tenant: "t1", name: "human=eve", ...NEVER });
  expect(await refusal(foreign.credentials)).toMatch(/authorization/i);
  rmSync(folder, { recursive: true });
});

test("the register lists what was issued and survives half a line", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-register-"));
  const first = await issueGrant(folder, { role: "agent", tenant: "t1", name: "a", ...NEVER });
  appendFileSync(join(folder, "grants.jsonl"), '{"issued":{"id":"UA');
  expect(readGrants(folder)).toEqual([first.grant]);
  const second = await issueGrant(folder, { role: "observer", tenant: "t1", name: "human=b", ...NEVER });
  expect(readGrants(folder)).toEqual([first.grant, second.grant]);
  revokeGrants(folder, ({ id }) => id === second.grant.id, new Date("2026-01-02T03:04:05Z"));
  expect(readGrants(folder)[1]).toMatchObject({ revoked_at: "2026-01-02T03:04:05.000Z" });
  appendFileSync(join(folder, "grants.jsonl"), "not JSON\n");
  appendGrant(folder, { revoked: { id: first.grant.id, at: new Date().toISOString() } });
  expect(() => readGrants(folder)).toThrow(/register of credentials is damaged/);
  rmSync(folder, { recursive: true });
});

test("keys and register are readable by their user only, and keys that others can read are refused", async () => {
  const home = mkdtempSync(join(tmpdir(), "fleet-home-"));
  const folder = join(home, "access");
  const keys = openKeys(folder);
  await issueGrant(folder, { role: "agent", tenant: "t1", name: "a", ...NEVER });
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  for (const name of readdirSync(folder))
    expect([name, statSync(join(folder, name)).mode & 0o077]).toEqual([name, 0]);
  expect(openKeys(folder).account.getPublicKey()).toBe(keys.account.getPublicKey());
  expect(readFileSync(join(folder, "grants.jsonl"), "utf8")).not.toMatch(/SU[A-Z2-7]{50}/);
  const grant = { role: "agent", tenant: "t1", name: "a" } as const;
  expect(await issueLocally(home, grant)).toContain("BEGIN NATS USER JWT");
  chmodSync(join(folder, "role-agent.nk"), 0o644);
  await expect(issueLocally(home, grant)).rejects.toThrow(/can be read by other users/);
  rmSync(home, { recursive: true });
});

test("a clock that was set back does not save credentials from their revocation", async () => {
  const later = new Date(Date.now() + 3_600_000);
  const options = { role: "agent", tenant: "t1", name: "early", expiresAt: null } as const;
  const { grant } = await issueGrant(nats.access, { ...options, now: later });
  revokeGrants(nats.access, ({ id }) => id === grant.id, new Date());
  const revocations = revocationsOf(readGrants(nats.access));
  expect(revocations[grant.id]).toBeGreaterThanOrEqual(later.getTime() / 1_000);
});

test("a fleet with keys and without its register does not forget revocations in silence", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-keys-"));
  openKeys(folder);
  expect(readGrants(folder)).toEqual([]);
  rmSync(join(folder, "grants.jsonl"));
  openKeys(folder);
  expect(() => readGrants(folder)).toThrow(/register of credentials is missing/);
  rmSync(folder, { recursive: true });
});

test.each(["operator", "account", "system"])(
  "the key %s that was lost is not replaced in silence",
  (name) => {
    const folder = mkdtempSync(join(tmpdir(), "fleet-keys-"));
    openKeys(folder);
    const path = join(folder, `${name}.nk`);
    const key = readFileSync(path);
    rmSync(path);
    expect(() => openKeys(folder)).toThrow(/a key of the fleet is missing/);
    writeFileSync(path, key, { mode: 0o600 });
    expect(openKeys(folder)).toBeDefined();
    rmSync(folder, { recursive: true });
  },
);

test("keys of which only the first were made are completed", () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-keys-"));
  const { account } = openKeys(folder);
  for (const name of readdirSync(folder)) if (name.startsWith("role-")) rmSync(join(folder, name));
  rmSync(join(folder, "system.nk"));
  expect(openKeys(folder).account.getPublicKey()).toBe(account.getPublicKey());
  rmSync(folder, { recursive: true });
});

test("no credentials are issued for a wildcard", async () => {
  const { account, roles } = openKeys(nats.access);
  const keys = { account: account.getPublicKey(), signer: roles.agent };
  for (const [tenant, name] of [
    ["t1", "*"],
    ["t1", ">"],
    ["*", "ada"],
    ["=", "ada"],
    ["t1", "{{tag(tenant)}}"],
  ] as const) {
    await expect(issueCredentials({ role: "agent", tenant, name }, keys)).rejects.toMatchObject({
      code: "INVALID",
    });
  }
});
