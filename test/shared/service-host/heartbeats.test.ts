// What a listener keeps of heartbeats that come over a real bus.

import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { encodeBody } from "../../../shared/integrity/wire.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { CONTENT_TYPES, HEADERS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import {
  type Heard,
  type Heartbeats,
  listenToHeartbeats,
} from "../../../shared/service-host/heartbeat-subscription.ts";
import { manualClock } from "../../harness/clock.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

const clock = manualClock(Date.UTC(2030, 0, 1));
const beats: { agent: string; beat: Heard["beat"] }[] = [];
let nats: TestNats;
let bus: Bus;
let heartbeats: Heartbeats;
beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  const onBeat = ({ beat }: Heard): void => void beats.push({ agent: beat.agent_id, beat });
  heartbeats = await listenToHeartbeats({ bus, clock, log: testLog, onBeat });
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
): void {
  const said = {
    agent_id: agent,
    agent_type: "qa",
    task_id: "task",
    fence: 1,
    state: "working",
    sent_at: at(clock.now()),
    ...changes,
  };
  const out = { body: encodeBody(said, contentType), headers: { [HEADERS.contentType]: contentType } };
  bus.publish(SUBJECTS.heartbeat("default", agent), out);
}

/** Of one connection messages come in their order, so what was sent before a beat of the marker has come when that has. */
async function heard(agent: string): Promise<Heard | undefined> {
  const before = beats.filter((one) => one.agent === "marker").length;
  beat("marker");
  await expect.poll(() => beats.filter((one) => one.agent === "marker").length).toBeGreaterThan(before);
  return heartbeats.of("default").get(agent);
}

test.each([CONTENT_TYPES.json, CONTENT_TYPES.msgpack])(
  "a beat that says the same as the one before but for its time is a sign of life and is not decoded: %s",
  async (contentType) => {
    const agent = contentType.replaceAll("/", "-");
    beat(agent, {}, contentType);
    const first = await heard(agent);
    const known = first?.beat;
    expect(first).toMatchObject({ tenant: "default", firstAt: clock.now(), lastAt: clock.now() });
    await clock.advance(2_000);
    beat(agent, {}, contentType);
    const second = await heard(agent);
    expect(second?.lastAt).toBe(clock.now());
    expect(second?.beat).toBe(known);
    await clock.advance(2_000);
    beat(agent, { fence: 2 }, contentType);
    const third = await heard(agent);
    expect(third).toMatchObject({ lastAt: clock.now(), beat: { fence: 2, sent_at: at(clock.now()) } });
    expect(third?.firstAt).toBe(clock.now() - 4_000);
  },
);

test("any other byte that changes is noticed, also in front of the time and behind it", async () => {
  const text = (state: string, host: string): string =>
    `{"agent_id":"around","agent_type":"qa","state":"${state}","sent_at":"${at(clock.now())}","host":"${host}"}`;
  for (const [state, host] of [
    ["idle", "one"],
    ["idle", "two"],
  ] as const) {
    bus.publish(SUBJECTS.heartbeat("default", "around"), { body: Buffer.from(text(state, host)) });
    expect((await heard("around"))?.beat).toMatchObject({ state, host });
  }
  bus.publish(SUBJECTS.heartbeat("default", "around"), { body: Buffer.from(text("none", "two")) });
  // What is not valid leaves what was known as it was.
  expect((await heard("around"))?.beat).toMatchObject({ state: "idle", host: "two" });
});

test("a step ends by the agent's own clock, however wrong that is", async () => {
  const wrong = clock.now() - 3_600_000;
  beat("late-clock", { sent_at: at(wrong), step_deadline: at(wrong + 30_000) });
  expect((await heard("late-clock"))?.stepEndsAt).toBe(clock.now() + 30_000);
  beat("late-clock", { sent_at: at(wrong + 1) });
  expect((await heard("late-clock"))?.stepEndsAt).toBeNull();
});

test("beats in another's name, too large ones and what is none are not heard", async () => {
  beat("impostor", { agent_id: "somebody" });
  expect(await heard("impostor")).toBeUndefined();
  beat("large", { host: "h".repeat(100), note: "x".repeat(LIMITS.heartbeat_bytes_max) });
  expect(await heard("large")).toBeUndefined();
  bus.publish(SUBJECTS.heartbeat("default", "noise"), { body: Buffer.from("{") });
  bus.publish(SUBJECTS.heartbeat("default", "noise"), { body: Buffer.alloc(0) });
  expect(await heard("noise")).toBeUndefined();
});
