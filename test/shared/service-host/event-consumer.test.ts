/** Instances of two versions share a durable on a real bus: an event that only the newer one knows is handled by it, and lost by neither. */
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams, SETTINGS_VERSION } from "../../../shared/bus/streams/streams.ts";
import type { EventType } from "../../../shared/protocol/events.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { startEventConsumer } from "../../../shared/service-host/event-consumer.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

const DURABLE = "two-versions";
const EVENTS = 60;
const SOON = { timeout: 60_000, interval: 50 };
let nats: TestNats;
const buses: Bus[] = [];
const stops: Stop[] = [];

const open = async (name: string): Promise<Bus> => {
  const bus = await connectBus({ url: nats.url, name, identity: name, log: testLog });
  buses.push(bus);
  return bus;
};

beforeAll(async () => {
  nats = await startNats();
  await (await open("setup")).reconcileStreams(fleetStreams({ storageBytes: 256 * 1024 * 1024 }));
});
afterAll(async () => {
  await Promise.all(stops.map((stop) => stop()));
  await Promise.all(buses.map((bus) => bus.close()));
  await nats?.stop();
});

/** An instance that knows these types; resolves with the events that it has handled, as type and sequence. */
async function instance(name: string, types: readonly EventType[]): Promise<string[]> {
  const handled: string[] = [];
  const context = { log: testLog, clock: systemClock, metrics: createMetrics({ service: name }) };
  const handle = async ({ type, sequence }: { type: string; sequence: number }) =>
    void handled.push(`${type} ${sequence}`);
  const options = { name, durable: DURABLE, types, inProgressMax: 4, handle };
  stops.push(startEventConsumer({ ...context, backgroundBus: await open(name) }, options));
  return handled;
}

const publish = (type: "TASK_TAKEN" | "TASK_RELEASED", sequence: number) => {
  const data = { taskId: "t", agentId: "a", fence: 1, previousOwner: null };
  const own = {
    id: `default/t/${sequence}`,
    source: "fleet",
    type,
    subject: "t",
    tenant: "default",
    sequence,
    data,
  };
  const event = {
    specversion: "1.0",
    time: new Date().toISOString(),
    datacontenttype: "application/json",
    ...own,
  };
  const out = { body: Buffer.from(JSON.stringify(event)) };
  return buses[0]!.publishDurable(SUBJECTS.event("default", type, "t"), out, {
    ...{ messageId: event.id, timeoutMs: 20_000 },
  });
};

test("an older instance gives an event of a newer type back, and keeps the wider filters", async () => {
  const newer = await instance("newer", ["TASK_TAKEN", "TASK_RELEASED"]);
  const admin = await connect({ servers: nats.url });
  const manager = await jetstreamManager(admin);
  const durable = () => manager.consumers.info(STREAMS.events, DURABLE);
  await expect
    .poll(
      () =>
        durable().then(
          ({ name }) => name,
          () => null,
        ),
      SOON,
    )
    .toBe(DURABLE);
  // As a newer version would have set it.
  const { config } = await durable();
  await manager.consumers.update(STREAMS.events, DURABLE, {
    metadata: { ...config.metadata, "fleet.settings": String(SETTINGS_VERSION + 1) },
  });
  const older = await instance("older", ["TASK_TAKEN"]);
  await expect.poll(() => durable().then(({ num_waiting }) => num_waiting), SOON).toBeGreaterThan(1);
  for (let n = 1; n <= EVENTS; n += 1) await publish(n % 2 === 0 ? "TASK_RELEASED" : "TASK_TAKEN", n);
  await expect.poll(() => newer.length + older.length, SOON).toBe(EVENTS);
  expect([...newer, ...older].sort()).toEqual(
    Array.from(
      { length: EVENTS },
      (_, n) => `${n % 2 === 0 ? "TASK_TAKEN" : "TASK_RELEASED"} ${n + 1}`,
    ).sort(),
  );
  expect(older.filter((event) => event.startsWith("TASK_RELEASED"))).toEqual([]);
  expect((await durable()).config.filter_subjects).toEqual(config.filter_subjects);
  expect(older.length, "both instances get events").toBeGreaterThan(0);
  await admin.close();
}, 120_000);
