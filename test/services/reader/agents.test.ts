// The query `agents` on a real bus and a real store: heartbeats joined with the owners in the store, in
// pages.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAgentsQuery } from "../../../services/reader/agents.ts";
import { start } from "../../../services/reader/reader.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { decodeBody, encodeBody } from "../../../shared/integrity/wire.ts";
import type { Agent, AgentPage } from "../../../shared/protocol/agents.ts";
import type { Heartbeat } from "../../../shared/protocol/heartbeat.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { CONTENT_TYPES, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { subscribeHeartbeats } from "../../../shared/service-host/heartbeat-subscription.ts";
import { manualClock } from "../../harness/clock.ts";
import { unguardedDisk } from "../../harness/disk.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { create, openTestRecords, send, type TestRecords } from "../../harness/records/records.ts";

let nats: TestNats;
let bus: Bus;
let bench: TestRecords;
let stop: Stop;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  bench = await openTestRecords("lmdb");
  const { store, format } = bench;
  stop = await start({
    log: testLog,
    metrics: createMetrics(),
    clock: systemClock,
    bus,
    store,
    format,
    instance: "reader-1",
    leases: createLeaderLeases(store, "reader-1", Date.now),
    disk: unguardedDisk,
    config: { agentTypes: [], policies: DEFAULT_POLICIES },
  });
});

afterAll(async () => {
  await stop();
  await bus.close();
  await bench.close();
  await nats.stop();
});

function beat(agent: string, more: Partial<Heartbeat> = {}, tenant = "default"): void {
  const heartbeat: Heartbeat = {
    agent_id: agent,
    agent_type: "qa",
    state: "working",
    sent_at: new Date().toISOString(),
    ...more,
  };
  bus.publish(SUBJECTS.heartbeat(tenant, agent), { body: encodeBody(heartbeat, CONTENT_TYPES.json) });
}

async function page(query: object = {}, tenant = "default"): Promise<AgentPage> {
  const answer = await bus.request(
    SUBJECTS.query(tenant, "operator-1", "agents"),
    { body: encodeBody(query, CONTENT_TYPES.json) },
    { timeoutMs: 5_000 },
  );
  const { result, error } = decodeBody(answer.body, CONTENT_TYPES.json) as {
    result: AgentPage;
    error: unknown;
  };
  expect(error).toBeUndefined();
  return result;
}

async function all(limit: number): Promise<Agent[]> {
  const found: Agent[] = [];
  for (let cursor: string | undefined; ; ) {
    const got = await page({ limit, ...(cursor && { cursor }) });
    expect(got.agents.length).toBeLessThanOrEqual(limit);
    found.push(...got.agents);
    if (got.cursor === undefined) return found;
    cursor = got.cursor;
  }
}

describe("agents", () => {
  test("are listed with their state, and with whether the store confirms their ownership", async () => {
    const { repository } = bench;
    await send(repository, "take", {}, { agent: "alive", task: "t-1" });
    await send(repository, "take", {}, { agent: "zombie", task: "t-2" });
    await send(repository, "take", {}, { agent: "successor", task: "t-2" });
    await create(repository, { agent: "successor", task: "t-2", fence: 2 });
    await send(repository, "take", {}, { agent: "human=ada", task: "t-of-a-person" });
    await send(repository, "take", { heartbeats: true }, { agent: "promiser", task: "t-3" });
    beat("alive", { task_id: "t-1", fence: 1, pid: 4_711, host: "build-3" });
    beat("zombie", { task_id: "t-2", fence: 1 });
    beat("idler", { state: "idle" });
    beat("stranger", {}, "other");

    const { agents, listening_since, cursor } = await page();
    expect(cursor).toBeUndefined();
    expect(Date.parse(listening_since)).toBeLessThanOrEqual(Date.now());
    expect(agents.map(({ agent_id, task_id, owner, state }) => [agent_id, task_id, owner, state])).toEqual([
      ["alive", "t-1", true, "working"],
      ["idler", null, null, "idle"],
      ["zombie", "t-2", false, "working"],
      ["successor", "t-2", true, "unmonitored"],
      ["promiser", "t-3", true, "silent"],
    ]);
    expect(agents[0]).toMatchObject({ fence: 1, pid: 4_711, host: "build-3", agent_type: "qa" });
    expect(agents[3]).toMatchObject({ fence: 2, last_beat_at: null, agent_type: "implementation" });
    expect((await page({}, "other")).agents.map(({ agent_id }) => agent_id)).toEqual(["stranger"]);
  });

  test("are listed once each, in pages of any size", async () => {
    const whole = await all(100);
    expect(whole.length).toBe(5);
    for (const limit of [1, 2, 3, 4, 5]) expect((await all(limit)).map(nameOf)).toEqual(whole.map(nameOf));
  });

  test("with unreadable heartbeats, or with those of another agent, are not listed", async () => {
    bus.publish(SUBJECTS.heartbeat("default", "malformed"), { body: Buffer.from("{") });
    beat("honest");
    bus.publish(SUBJECTS.heartbeat("default", "impostor"), {
      body: encodeBody(
        { agent_id: "impersonated", agent_type: "qa", state: "idle", sent_at: new Date().toISOString() },
        CONTENT_TYPES.json,
      ),
    });
    const names = (await page()).agents.map(({ agent_id }) => agent_id);
    expect(names).toContain("honest");
    expect(names).not.toContain("malformed");
    expect(names).not.toContain("impostor");
    expect(names).not.toContain("impersonated");
  });

  test("with heartbeats above the size limit are not listed, so that thousands fit in memory", async () => {
    beat("verbose", { host: "h", ...{ story: "x".repeat(LIMITS.heartbeat_bytes_max) } });
    beat("brief", { host: "h".repeat(256), ...{ story: "x".repeat(3_000) } });
    const names = (await page()).agents.map(({ agent_id }) => agent_id);
    expect(names).toContain("brief");
    expect(names).not.toContain("verbose");
  });

  test("a cursor of another query is refused", async () => {
    const answer = await bus.request(
      SUBJECTS.query("default", "operator-1", "agents"),
      { body: encodeBody({ cursor: "malformed" }, CONTENT_TYPES.json) },
      { timeoutMs: 5_000 },
    );
    expect(decodeBody(answer.body, CONTENT_TYPES.json)).toMatchObject({
      error: { code: "INVALID", fields: [{ path: "cursor" }] },
    });
  });
});

test("an agent without heartbeats for a long time is not listed", async () => {
  const clock = manualClock();
  const heartbeats = await subscribeHeartbeats({ bus, clock, log: testLog });
  beat("old");
  await expect.poll(() => [...heartbeats.of("default").keys()]).toEqual(["old"]);
  await clock.advance(LIMITS.agent_remembered_ms - 1);
  beat("new");
  await expect.poll(() => [...heartbeats.of("default").keys()]).toEqual(["new", "old"]);
  await clock.advance(2);
  expect([...heartbeats.of("default").keys()]).toEqual(["new"]);
  await heartbeats.stop();
});

test("an agent that announced its end is not listed, one without an announcement is silent", async () => {
  const clock = manualClock();
  const heartbeats = await subscribeHeartbeats({ bus, clock, log: testLog });
  const { store, repository } = bench;
  await send(repository, "take", {}, { agent: "left-its-task", task: "t-left" });
  beat("left-its-task", { task_id: "t-left", fence: 1, state: "stopping" });
  beat("announced-end", { state: "stopping" });
  beat("silent");
  await expect.poll(() => heartbeats.of("default").size).toBe(3);

  const query = createAgentsQuery({ store, heartbeats, now: () => clock.now() });
  const states = async (): Promise<Map<string, string>> =>
    new Map((await query("default", { limit: 100 })).agents.map(({ agent_id, state }) => [agent_id, state]));
  expect((await states()).get("announced-end")).toBe("stopping");
  await clock.advance(5 * LIMITS.heartbeat_ms);
  const later = await states();
  expect(later.has("announced-end")).toBe(false);
  expect(later.get("silent")).toBe("silent");
  expect(later.get("left-its-task")).toBe("unmonitored");
  await heartbeats.stop();
});

const nameOf = ({ agent_id, task_id }: Agent): string => `${agent_id}/${task_id}`;
