/** Every read of content is in the access log of its tenant, by every way to the fleet, and no entry has content. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { decode } from "../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";
import { newRestClient, type RestClient } from "../../harness/rest-client.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 240_000;
/** A word of the content, and of a search. */
const CANARY = "marmalade";

let fleet: TestFleet;
let folder: string;
let operator: FleetClient;
let agent: FleetClient;
let rest: RestClient;

const cli = (...args: string[]) =>
  callCli(args, {
    env: { FLEET_URL: fleet.url, FLEET_HOME: fleet.home, FLEET_SPOOL_DIR: join(fleet.home, "spool") },
  });

async function json(...args: string[]) {
  const { exit, out, err } = await cli(...args, "--json");
  return { exit, err, data: JSON.parse(out) };
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-access-"));
  const policy = join(folder, "policy.json");
  writeFileSync(policy, JSON.stringify({ access_log: "strict", tenants: { quiet: { access_log: "off" } } }));
  fleet = await startFleet({ FLEET_POLICY: policy, FLEET_THREADS: "1", FLEET_GATEWAY_PORT: "-1" });
  operator = await fleet.client("operator-1");
  agent = await fleet.client("coder-1");
  rest = await newRestClient(fleet, { name: "reporter-1", role: "observer" });
});
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const opsOf = async (task: string) =>
  (await operator.admin.accessLog.list({ taskId: task, limit: 500, deadlineMs: 60_000 })).entries.map(
    ({ actor, op }) => [actor.id, op],
  );

test("each read has an entry with what was shown, before it is answered", { timeout: CALLS_MS }, async () => {
  const { checkpointId: id } = await agent.createCheckpoint({
    taskId: "reads",
    checkpoint: input({ goal: CANARY }),
  });
  const checkpoint_id = String(id);
  await agent.getCheckpoint(checkpoint_id);
  await agent.getLatestCheckpoint("reads");
  await agent.getCheckpointHistory("reads");
  const search = async () => (await agent.searchCheckpoints({ text: CANARY })).checkpoints.length;
  await expect.poll(search, { timeout: 60_000 }).toBe(1);
  await agent.admin.recoveryPoint("reads");
  const { entries } = await operator.admin.accessLog.list({ taskId: "reads", deadlineMs: 60_000 });
  const known = new Map(entries.map((entry) => [entry.op, entry]));
  const actor = { id: "coder-1", type: "agent" };
  const one = { actor, outcome: "ok", task_id: "reads", checkpoint_id, version: 1 };
  expect(known.get("query.get")).toMatchObject(one);
  expect(known.get("query.latest")).toMatchObject(one);
  expect(known.get("query.recovery_point")).toMatchObject(one);
  expect(known.get("query.history")).toMatchObject({ actor, task_id: "reads", items: 1 });
  expect(known.get("query.search")).toMatchObject({ actor, task_id: "reads", items: 1 });
});

test("handoffs, missions, messages and artifacts", { timeout: CALLS_MS }, async () => {
  const mission = agent.mission("msn-read");
  await mission.start({ title: CANARY });
  await mission.addSorties([{ sortieId: "one", title: CANARY }]);
  await mission.state();
  await mission.sorties();
  await mission.send({ to: ["coder-1"], subject: CANARY, body: CANARY });
  await mission.messageList();
  await mission.mailbox();
  await mission.acquireLock("src/a.ts", { purpose: CANARY });
  await mission.locks();
  await mission.recoveryContext();
  await agent.createCheckpoint({ taskId: "handed", checkpoint: input({ goal: CANARY }) });
  const { handoffId } = await agent.initiateHandoff(null, {
    taskId: "handed",
    toAgentType: "qa",
    reason: CANARY,
  });
  await agent.handoff(handoffId);
  const ops = new Set((await opsOf("msn-read")).map(([, op]) => op));
  const expected = ["mission", "sorties", "messages", "mailbox", "locks", "recovery_context"];
  expect([...ops].sort()).toEqual(expected.map((op) => `query.${op}`).sort());
  expect(await opsOf("handed")).toContainEqual(["coder-1", "query.handoff"]);
});

test("the HTTP API and the program ask the same queries", { timeout: CALLS_MS }, async () => {
  const { checkpointId: id } = await agent.createCheckpoint({
    taskId: "ways",
    checkpoint: input({ goal: CANARY }),
  });
  expect(await rest.get(`/checkpoints/${id}`)).toMatchObject({ status: 200 });
  const sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  const uploader = await newRestClient(fleet, { name: "uploader-1" });
  expect((await uploader.send("PUT", `/artifacts/${sha256}`, { body: "abc" })).status).toBe(201);
  const content = await fetch(`${fleet.gatewayUrl()}/api/v1/artifacts/${sha256}/content`, {
    headers: { authorization: `Bearer ${rest.key}` },
  });
  expect(await content.text()).toBe("abc");
  expect(await cli("checkpoint", "show", String(id), "--agent", "viewer-1")).toMatchObject({ exit: 0 });
  expect(
    await cli("export", "--task", "ways", "--agent", "exporter-1", "--out", join(folder, "ways.jsonl")),
  ).toMatchObject({
    exit: 0,
  });
  const ways = await opsOf("ways");
  expect(ways).toContainEqual(["reporter-1", "query.get"]);
  expect(ways).toContainEqual(["viewer-1", "query.get"]);
  expect(new Set(ways.map(([actor]) => actor))).toContain("exporter-1");
  const { data } = await json("audit", "access", "ways", "--actor", "reporter-1");
  // On a busy machine the client may have asked again.
  expect(data.entries[0]).toMatchObject({ op: "query.get", task_id: "ways", address: "127.0.0.1" });
  expect(data.entries[0].request_id).toMatch(/^[0-9a-f-]{36}$/);
  const mine = await operator.admin.accessLog.list({ actor: "reporter-1", deadlineMs: 60_000 });
  expect(mine.entries).toContainEqual(expect.objectContaining({ op: "query.artifact_read", sha256 }));
});

test("each thing that does not exist is an entry when it is read, and many reads of one are few", {
  timeout: CALLS_MS,
}, async () => {
  const guesser = await fleet.client("guesser-1");
  const ids = [0, 1, 2].map((i) => `019bef70-b0e8-7a31-b5c4-0d6e2f9a1b0${i}`);
  const READS = 10;
  for (let i = 0; i < READS; i += 1) for (const id of ids) await guesser.getCheckpoint(id);
  const seen = async () =>
    (await operator.admin.accessLog.list({ actor: "guesser-1", deadlineMs: 60_000 })).entries;
  const any = (checkpoint_id: string) =>
    expect.objectContaining({ outcome: "failed", reason: "NOT_FOUND", checkpoint_id }) as unknown;
  for (const id of ids) await expect.poll(seen, { timeout: 60_000 }).toContainEqual(any(id));
  // One of each at once, and one with the number of the others after each minute.
  expect((await seen()).length).toBeLessThan((READS * ids.length) / 2);
});

test("tenants do not see each other's reads, and a tenant without a log has none", {
  timeout: CALLS_MS,
}, async () => {
  for (const tenant of ["quokka", "quiet"]) {
    const own = await fleet.client("reader-1", tenant);
    await own.createCheckpoint({ taskId: `${tenant}-task`, checkpoint: input() });
    await own.getLatestCheckpoint(`${tenant}-task`);
  }
  const [quokka, quiet] = [await fleet.client("op", "quokka"), await fleet.client("op", "quiet")];
  const { entries } = await quokka.admin.accessLog.list();
  expect(entries.length).toBeGreaterThanOrEqual(1);
  for (const one of entries) expect(one).toMatchObject({ actor: { id: "reader-1" }, task_id: "quokka-task" });
  expect(await quiet.admin.accessLog.list()).toMatchObject({ entries: [], mode: "off" });
  const all = await operator.admin.accessLog.list({ limit: 500, deadlineMs: 60_000 });
  expect(JSON.stringify(all)).not.toContain("quokka");
});

test("fleet audit shows and verifies the log; it has neither content nor words of searches", {
  timeout: CALLS_MS,
}, async () => {
  // A session without an entry for a minute ends.
  await agent.getLatestCheckpoint("reads");
  const report = await operator.admin.accessLog.verify({ deadlineMs: 60_000 });
  expect(report.open.length).toBeGreaterThanOrEqual(1);
  const shown = await cli("audit", "access", "reads");
  expect(shown.out).toContain("query.get");
  const { exit, data } = await json("audit", "verify", "--access");
  expect(exit).toBe(0);
  expect(data).toMatchObject({ ok: true, problems: [], lost: 0, signatures: { unsigned: 0, problems: [] } });
  expect(data.records).toBeGreaterThan(5);
  expect((await cli("audit", "verify")).exit).toBe(64);
  // A fleet with one thread does not share its store.
  await fleet.terminate();
  const store = await openStore(`lmdb:${join(fleet.home, "store")}`);
  try {
    const texts = await store.read({ label: "test", deadlineMs: 5_000 }, async (reader) => {
      const { rows } = await reader.getRange(tenantKeys("default").accessBlocks(), { limit: 1_000 });
      return rows.map(({ value }) => decode<string>(value));
    });
    expect(texts.length).toBeGreaterThan(5);
    for (const text of texts) {
      expect(text).not.toContain(CANARY);
      expect(text).not.toContain(rest.key.slice(-20));
    }
  } finally {
    await store.close({ drainMs: 1_000 });
    await fleet.start();
  }
});

test("the session of a fleet that stops in good order is closed", { timeout: CALLS_MS }, async () => {
  await agent.getLatestCheckpoint("reads");
  await fleet.terminate();
  await fleet.start();
  const before = await operator.admin.accessLog.verify({ deadlineMs: 60_000 });
  expect(before).toMatchObject({ ok: true, open: [] });
});
