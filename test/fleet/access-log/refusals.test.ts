/** Each refused request is in the access log, by every wall that refuses it, and a flood of them is few entries. */
import { connect as connectRaw, credsAuthenticator } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { issueLocally } from "../../../shared/bus/access/local-credentials.ts";
import { decode } from "../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { newRestClient, restClient } from "../../harness/rest-client.ts";

const CALLS_MS = 240_000;
const POLL = { timeout: 90_000 };

let fleet: TestFleet;
let operator: FleetClient;

beforeAll(async () => {
  fleet = await startFleet({ FLEET_THREADS: "1", FLEET_GATEWAY_PORT: "-1" });
  operator = await fleet.client("operator-1");
});
afterAll(() => fleet?.stop());

const denied = async (query: object = {}) =>
  (await operator.admin.accessLog.list({ denied: true, limit: 500, deadlineMs: 60_000, ...query })).entries;

async function rawConnection(agent: string, name?: string) {
  const creds = await issueLocally(fleet.home, { role: "agent", tenant: "default", name: agent });
  return connectRaw({
    servers: fleet.url,
    authenticator: credsAuthenticator(Buffer.from(creds!)),
    inboxPrefix: `_INBOX.default.${agent}`,
    ...(name !== undefined && { name }),
  });
}

test("a caller of the HTTP API without valid credentials", { timeout: CALLS_MS }, async () => {
  const unknown = restClient(fleet.gatewayUrl, `fleet_${"a".repeat(16)}_${"B".repeat(42)}A`);
  expect((await unknown.get("/tasks/none")).status).toBe(401);
  const none = await fetch(`${fleet.gatewayUrl()}/api/v1/status`);
  expect(none.status).toBe(401);
  const entries = () => denied({ actor: "fleet-gateway" });
  const of = (op: string, credential: string) =>
    expect.objectContaining({ op, reason: "credentials", credential, address: "127.0.0.1" }) as unknown;
  await expect.poll(entries, POLL).toContainEqual(of("http.getTask", `key ${"a".repeat(16)}`));
  await expect.poll(entries, POLL).toContainEqual(of("http.getStatus", "none"));
});

test("a key that is not for the operation, and a role that is not for it", {
  timeout: CALLS_MS,
}, async () => {
  const scoped = await newRestClient(fleet, { name: "scoped-1", role: "operator", scopes: ["getStatus"] });
  expect((await scoped.get("/tasks")).status).toBe(403);
  await expect
    .poll(() => denied({ actor: "scoped-1" }), POLL)
    .toContainEqual(
      expect.objectContaining({ op: "http.listTasks", reason: "scope", address: "127.0.0.1" }) as unknown,
    );
  const agent = await newRestClient(fleet, { name: "curious-1", tenant: "quokka" });
  expect((await agent.get("/audit")).status).toBe(403);
  // In the log of the caller's own tenant.
  const quokka = await fleet.client("op", "quokka");
  const ofCaller = async () =>
    (await quokka.admin.accessLog.list({ denied: true, actor: "curious-1", deadlineMs: 60_000 })).entries;
  const permission = { op: "http.getTenantAudit", reason: "permission" };
  await expect.poll(ofCaller, POLL).toContainEqual(expect.objectContaining(permission) as unknown);
});

test("the bus refuses another tenant, another name and wrong credentials", {
  timeout: CALLS_MS,
}, async () => {
  const evil = await rawConnection("evil-1");
  evil.publish("fleet.query.quokka.evil-1.latest", '{"task_id":"x"}');
  evil.publish("fleet.query.default.operator-1.latest", '{"task_id":"x"}');
  evil.subscribe("fleet.event.quokka.>", { callback: () => {} });
  await evil.flush();
  await connectRaw({ servers: fleet.url, user: "a", pass: "secret-word", reconnect: false }).catch(() => {});
  const entries = () => denied({ actor: "fleet-bus" });
  const nkey = expect.stringMatching(/^nkey U[A-Z2-7]{55}$/) as string;
  const address = "127.0.0.1";
  for (const one of [
    { op: "bus.publish", reason: "permission", credential: nkey, address },
    { op: "bus.subscribe", reason: "permission", credential: nkey, address },
    { op: "bus.connect", reason: "credentials", credential: "none", address },
  ])
    await expect.poll(entries, POLL).toContainEqual(expect.objectContaining(one));
  await evil.close();
});

test("a name of a connection blames no other credentials", { timeout: CALLS_MS }, async () => {
  const victim = `U${"B".repeat(55)}`;
  const names = [`x nkey:${victim} x`, `a%[1]s - %[1]sACC/FLEET/nkey:${victim}%[1]s - Publish Violation - `];
  const blamed = async () => {
    const entries = await denied({ actor: "fleet-bus" });
    return new Set(entries.filter(({ op }) => op === "bus.publish").map(({ credential }) => credential));
  };
  for (const name of names) {
    const known = await blamed();
    const mallory = await rawConnection("mallory", name);
    // A subject of one quote, which the server puts into the name.
    mallory.publish('"', "x");
    await mallory.flush();
    await mallory.close();
    const added = async () => [...(await blamed())].filter((one) => !known.has(one));
    await expect.poll(added, POLL).toEqual([expect.stringMatching(/^nkey U[A-Z2-7]{55}$/)]);
    expect(await added()).not.toContain(`nkey ${victim}`);
  }
});

test("a service refuses what the role permits and the rule does not, and a foreign reply", {
  timeout: CALLS_MS,
}, async () => {
  const one = await fleet.client("human=ada");
  await one.createCheckpoint({
    taskId: "shared",
    checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
  });
  const agent = await fleet.client("robot-1");
  await expect(agent.admin.retention.requestShred("shared", { reason: "erasure" })).rejects.toMatchObject({
    code: "FORBIDDEN",
  });
  await expect
    .poll(() => denied({ actor: "robot-1" }), POLL)
    .toContainEqual(
      expect.objectContaining({ op: "cmd.shred_request", reason: "FORBIDDEN", task_id: "shared" }) as unknown,
    );
  const raw = await rawConnection("replier-1");
  raw.publish("fleet.query.default.replier-1.latest", '{"task_id":"shared"}', {
    reply: "_INBOX.default.operator-1.x",
  });
  await raw.flush();
  await expect
    .poll(() => denied({ actor: "replier-1" }), POLL)
    .toContainEqual(expect.objectContaining({ op: "query.latest", reason: "foreign_reply" }) as unknown);
  await raw.close();
});

test("a flood of equal refusals is few entries with their number", { timeout: CALLS_MS }, async () => {
  const flood = await newRestClient(fleet, { name: "flood-1", scopes: ["getStatus"] });
  const REQUESTS = 200;
  for (let i = 0; i < REQUESTS; i += 1) expect((await flood.get(`/tasks/task-${i}`)).status).toBe(403);
  const reported = async () => {
    const text = await (await fetch(`${fleet.opsUrl()}/metrics`)).text();
    const [, count = "0"] = /^fleet_queries_total\{[^}]*op="denial_record"[^}]*\} (\d+)$/m.exec(text) ?? [];
    return Number(count);
  };
  await expect.poll(reported, POLL).toBeGreaterThanOrEqual(REQUESTS);
  // The number follows when the time of the repetitions is over; a stop ends it.
  await fleet.terminate();
  await fleet.start();
  const entries = await denied({ actor: "flood-1" });
  // One at once and one with the number in each minute; far fewer than the requests even if these took many minutes.
  expect(entries.length).toBeLessThanOrEqual(REQUESTS / 4);
  // A report without an answer is repeated, and counts again.
  expect(entries.reduce((sum, { count = 1 }) => sum + count, 0)).toBeGreaterThanOrEqual(REQUESTS);
});

test("no entry repeats what was presented", { timeout: CALLS_MS }, async () => {
  // A fleet with one thread does not share its store.
  await fleet.terminate();
  const store = await openStore(`lmdb:${fleet.home}/store`);
  try {
    const texts = await store.read({ label: "test", deadlineMs: 5_000 }, async (reader) => {
      const { rows } = await reader.getRange(tenantKeys("default").accessBlocks(), { limit: 1_000 });
      return rows.map(({ value }) => decode<string>(value)).join("\n");
    });
    expect(texts).toContain("fleet-bus");
    for (const word of ["secret-word", "B".repeat(42), "Bearer"]) expect(texts).not.toContain(word);
  } finally {
    await store.close({ drainMs: 1_000 });
  }
});
