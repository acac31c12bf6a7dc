// The latest heartbeats of a subscription to a real bus.

import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { encodeBody } from "../../../shared/integrity/wire.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { CONTENT_TYPES, HEADERS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import {
  type HeartbeatSubscription,
  type LatestHeartbeat,
  subscribeHeartbeats,
} from "../../../shared/service-host/heartbeat-subscription.ts";
import { manualClock } from "../../harness/clock.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

const clock = manualClock(Date.UTC(2030, 0, 1));
const beats: { agent: string; beat: LatestHeartbeat["beat"] }[] = [];
let nats: TestNats;
let bus: Bus;
let heartbeats: HeartbeatSubscription;
beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  const onBeat = ({ beat }: LatestHeartbeat): void => void beats.push({ agent: beat.agent_id, beat });
  heartbeats = await subscribeHeartbeats({ bus, clock, log: testLog, onBeat });
});
afterAll(async () => {
  await bus?.close();
  await nats?.stop();
});

const at = (ms: number): string => new Date(ms).toISOString();

function beat(
  agent: string,
  changes: Record<string, unknown> = {},
  contentType: string = CONTENT_TYPES.json,
  headers: Record<string, string> = {},
): void {
  const value = {
    agent_id: agent,
    agent_type: "qa",
    task_id: "task",
    fence: 1,
    state: "working",
    sent_at: at(clock.now()),
    ...changes,
  };
  const out = {
    body: encodeBody(value, contentType),
    headers: { [HEADERS.contentType]: contentType, ...headers },
  };
  bus.publish(SUBJECTS.heartbeat("default", agent), out);
}

test("a heartbeat of a newer version of the messages counts for nothing", async () => {
  beat("ahead", {}, CONTENT_TYPES.json, { [HEADERS.protocol]: "2" });
  expect(await latest("ahead")).toBeUndefined();
  beat("ahead", {}, CONTENT_TYPES.json, { [HEADERS.protocol]: "1" });
  expect(await latest("ahead")).toBeDefined();
});

/** Messages of one connection arrive in order: when the marker has arrived, every earlier heartbeat has. */
async function latest(agent: string): Promise<LatestHeartbeat | undefined> {
  const before = beats.filter((one) => one.agent === "marker").length;
  beat("marker");
  await expect.poll(() => beats.filter((one) => one.agent === "marker").length).toBeGreaterThan(before);
  return heartbeats.of("default").get(agent);
}

test.each([CONTENT_TYPES.json, CONTENT_TYPES.msgpack])(
  "a heartbeat that differs in its time alone renews the agent and is not decoded: %s",
  async (contentType) => {
    const agent = contentType.replaceAll("/", "-");
    beat(agent, {}, contentType);
    const first = await latest(agent);
    const known = first?.beat;
    expect(first).toMatchObject({ tenant: "default", firstAt: clock.now(), lastAt: clock.now() });
    await clock.advance(2_000);
    beat(agent, {}, contentType);
    const second = await latest(agent);
    expect(second?.lastAt).toBe(clock.now());
    expect(second?.beat).toBe(known);
    await clock.advance(2_000);
    beat(agent, { fence: 2 }, contentType);
    const third = await latest(agent);
    expect(third).toMatchObject({ lastAt: clock.now(), beat: { fence: 2, sent_at: at(clock.now()) } });
    expect(third?.firstAt).toBe(clock.now() - 4_000);
  },
);

test("a change of any other byte is noticed, in front of the time and behind it", async () => {
  const text = (state: string, host: string): string =>
    `{"agent_id":"around","agent_type":"qa","state":"${state}","sent_at":"${at(clock.now())}","host":"${host}"}`;
  for (const [state, host] of [
    ["idle", "one"],
    ["idle", "two"],
  ] as const) {
    bus.publish(SUBJECTS.heartbeat("default", "around"), { body: Buffer.from(text(state, host)) });
    expect((await latest("around"))?.beat).toMatchObject({ state, host });
  }
  bus.publish(SUBJECTS.heartbeat("default", "around"), { body: Buffer.from(text("none", "two")) });
  // An invalid heartbeat changes nothing.
  expect((await latest("around"))?.beat).toMatchObject({ state: "idle", host: "two" });
});

test("a step ends by the agent's own clock, even if that is wrong", async () => {
  const wrong = clock.now() - 3_600_000;
  beat("late-clock", { sent_at: at(wrong), step_deadline: at(wrong + 30_000) });
  expect((await latest("late-clock"))?.stepEndsAt).toBe(clock.now() + 30_000);
  beat("late-clock", { sent_at: at(wrong + 1) });
  expect((await latest("late-clock"))?.stepEndsAt).toBeNull();
});

test("heartbeats with another agent's id, too large and malformed ones are ignored", async () => {
  beat("impostor", { agent_id: "victim" });
  expect(await latest("impostor")).toBeUndefined();
  beat("large", { host: "h".repeat(100), note: "x".repeat(LIMITS.heartbeat_bytes_max) });
  expect(await latest("large")).toBeUndefined();
  bus.publish(SUBJECTS.heartbeat("default", "noise"), { body: Buffer.from("{") });
  bus.publish(SUBJECTS.heartbeat("default", "noise"), { body: Buffer.alloc(0) });
  expect(await latest("noise")).toBeUndefined();
});
