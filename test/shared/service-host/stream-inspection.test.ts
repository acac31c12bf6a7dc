/** Streams and consumers that were removed or changed behind the fleet's back are named and restored. */
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams, SETTINGS_VERSION } from "../../../shared/bus/streams/streams.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import { startStreamInspection } from "../../../shared/service-host/stream-inspection.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

const SOON = { timeout: 15_000, interval: 100 };
const MIB = 1024 * 1024;

let nats: TestNats;
let bus: Bus;
let admin: Awaited<ReturnType<typeof connect>>;
let manager: Awaited<ReturnType<typeof jetstreamManager>>;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "inspected", identity: "inspected", log: testLog });
  admin = await connect({ servers: nats.url });
  manager = await jetstreamManager(admin);
  await bus.reconcileStreams(fleetStreams({ storageBytes: 100 * MIB }));
});
afterAll(async () => {
  await admin?.close();
  await bus?.close();
  await nats?.stop();
});

const inspect = () => bus.inspectStreams({ repair: true });
const queued = (n: number, body = `command ${n}`) =>
  bus.publishDurable(
    `fleet.queue.default.ada.task-${n}.create`,
    { body: Buffer.from(body) },
    { messageId: `queued-${n}-${body.length}`, timeoutMs: 2_000 },
  );

test("a fleet as it should be has no findings", async () => {
  expect(await inspect()).toEqual([]);
});

test("a removed stream is named and created again", async () => {
  await manager.streams.delete("FLEET_ALERTS");
  expect(await bus.inspectStreams({ repair: false })).toMatchObject([
    { stream: "FLEET_ALERTS", consumer: null, kind: "missing", repaired: false, blocks: true },
  ]);
  expect(await inspect()).toMatchObject([
    { stream: "FLEET_ALERTS", kind: "missing", repaired: true, blocks: false },
  ]);
  expect(await inspect()).toEqual([]);
});

test("changed settings are named and restored, and the messages stay", async () => {
  await queued(1);
  const { config } = await manager.streams.info("FLEET_QUEUE");
  await manager.streams.update("FLEET_QUEUE", { ...config, discard: "old", duplicate_window: 1e9 } as never);
  expect(await inspect()).toMatchObject([
    { stream: "FLEET_QUEUE", kind: "altered", detail: "discard, duplicate_window", repaired: true },
  ]);
  expect(await inspect()).toEqual([]);
  expect((await bus.stream("FLEET_QUEUE").state()).messages).toBe(1);
});

test("the server refuses to purge a stream, and to delete messages of events and of the queue", async () => {
  const refused = { message: expect.stringMatching(/not permitted|denied|deny/i) };
  await expect(manager.streams.deleteMessage("FLEET_QUEUE", 1)).rejects.toMatchObject(refused);
  await expect(manager.streams.purge("FLEET_DEAD")).rejects.toMatchObject(refused);
  const { config } = await manager.streams.info("FLEET_DEAD");
  expect(config).toMatchObject({ deny_delete: false, deny_purge: true });
});

test("a stream of an older fleet gets the denials", async () => {
  const [events] = fleetStreams({ storageBytes: 100 * MIB });
  const older = { ...events!, name: "OLDER", subjects: ["older.>"], denies: [] };
  await bus.reconcileStreams([older]);
  await bus.reconcileStreams([{ ...older, denies: events!.denies }]);
  expect((await manager.streams.info("OLDER")).config).toMatchObject({ deny_delete: true, deny_purge: true });
});

test("a paused, changed or removed consumer is named and restored, and delivers every message", async () => {
  const seen: string[] = [];
  const stop = await bus.consume(
    {
      stream: "FLEET_QUEUE",
      durable: "writer-all",
      filters: ["fleet.q.>"],
      maxAckPending: 1,
      ackWaitMs: 2_000,
    },
    async ({ body }) => void seen.push(Buffer.from(body).toString()),
  );
  await expect.poll(() => seen, SOON).toEqual(["command 1"]);
  await manager.consumers.pause("FLEET_QUEUE", "writer-all", new Date(Date.now() + 3_600_000));
  await queued(2);
  expect(await bus.inspectStreams({ repair: false })).toMatchObject([
    { stream: "FLEET_QUEUE", consumer: "writer-all", kind: "paused" },
  ]);
  expect(await inspect()).toMatchObject([{ consumer: "writer-all", kind: "paused", repaired: true }]);
  await expect.poll(() => seen, SOON).toEqual(["command 1", "command 2"]);

  await manager.consumers.update("FLEET_QUEUE", "writer-all", { max_ack_pending: 7 });
  expect(await inspect()).toMatchObject([{ kind: "altered", detail: "max_ack_pending", repaired: true }]);
  expect(await inspect()).toEqual([]);

  const { config } = await manager.consumers.info("FLEET_QUEUE", "writer-all");
  expect(config.metadata).toMatchObject({ "fleet.settings": String(SETTINGS_VERSION) });
  // As a newer version of Fleet would set it.
  const metadata = { ...config.metadata, "fleet.settings": String(SETTINGS_VERSION + 1) };
  await manager.consumers.update("FLEET_QUEUE", "writer-all", { max_ack_pending: 7, metadata });
  expect(await inspect()).toEqual([]);
  expect((await manager.consumers.info("FLEET_QUEUE", "writer-all")).config.max_ack_pending).toBe(7);
  await manager.consumers.update("FLEET_QUEUE", "writer-all", { max_ack_pending: 1 });

  await manager.consumers.delete("FLEET_QUEUE", "writer-all");
  await queued(3);
  await expect.poll(() => seen, SOON).toEqual(["command 1", "command 2", "command 3"]);
  await expect.poll(inspect, SOON).toEqual([]);
  await stop();
});

test("a nearly full stream is a warning, and a sealed one keeps the service from its work", async () => {
  const { bytesMax } = await bus.stream("FLEET_OFFERS").state();
  const body = Buffer.alloc(200_000);
  for (let n = 0; n * body.length < bytesMax * 0.92; n += 1) {
    const out = { messageId: `offer-${n}`, timeoutMs: 2_000 };
    await bus.publishDurable(`fleet.offer.default.qa.t-${n}`, { body }, out);
  }
  const metrics = createMetrics();
  const inspection = startStreamInspection({ clock: systemClock, log: testLog, metrics, buses: [bus] });
  const nearly = await inspection.check();
  expect(nearly).toMatchObject({
    ok: true,
    detail: expect.stringMatching(/^stream FLEET_OFFERS: nearly full/),
  });
  const { config } = await manager.streams.info("FLEET_EXITS");
  await manager.streams.update("FLEET_EXITS", { ...config, sealed: true } as never);
  await expect
    .poll(() => inspection.check(), SOON)
    .toMatchObject({ ok: false, detail: expect.stringContaining("stream FLEET_EXITS: sealed") });
  await manager.streams.delete("FLEET_EXITS");
  await expect.poll(() => inspection.check(), SOON).toMatchObject({ ok: true });
  const text = await metrics.registry.metrics();
  expect(text).toMatch(/fleet_stream_findings_total\{kind="sealed",repaired="false"\} 1/);
  await inspection.stop();
});
