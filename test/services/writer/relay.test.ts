/** The relay on a real nats-server: every committed event is published in order per task, by any instance. */

import { jetstreamManager } from "@nats-io/jetstream";
import { connect, type NatsConnection } from "@nats-io/transport-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startRelay } from "../../../services/writer/relay.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { offerMarks } from "../../../shared/bus/publish/offer-marks.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { offerSchema } from "../../../shared/protocol/offer.ts";
import { offerConsumer, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { outboxBacklog } from "../../../shared/records/outbox/outbox.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import type { TransactOptions, Tx } from "../../../shared/store/store.ts";
import { unguardedDisk } from "../../harness/disk.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";
import { initiate, offer } from "../../harness/records/handoffs.ts";
import { create, openTestRecords, type TestRecords } from "../../harness/records/records.ts";

describe("the relay", () => {
  let nats: Awaited<ReturnType<typeof startNats>>;
  let bus: Bus;
  let bench: TestRecords;
  let admin: NatsConnection;
  const received: FleetEvent[] = [];

  beforeAll(async () => {
    nats = await startNats();
    bus = await connectBus({ url: nats.url, name: "relay-test", identity: "relay-test", log: testLog });
    await bus.reconcileStreams(fleetStreams({ storageBytes: 1_000_000_000 }));
    bench = await openTestRecords("memory");
    admin = await connect({ servers: nats.url });
    await bus.follow({ stream: STREAMS.events, filter: SUBJECTS.everyEvent, from: "all" }, (message) => {
      received.push(JSON.parse(new TextDecoder().decode(message.body)) as FleetEvent);
    });
  });
  afterAll(async () => {
    await admin.close();
    await bus.close();
    await bench.close();
    await nats.stop();
  });

  const context = (instance: string) => ({
    store: bench.store,
    format: bench.format,
    bus,
    disk: unguardedDisk,
    leases: createLeaderLeases(bench.store, instance, Date.now),
    log: testLog,
    metrics: createMetrics(),
    clock: systemClock,
  });

  async function drained(): Promise<void> {
    for (;;) {
      const { depth } = await bench.store.read({ label: "test", deadlineMs: 5_000 }, (reader) =>
        outboxBacklog(reader),
      );
      if (depth === 0) return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  async function write(tasks: readonly string[], each: number): Promise<void> {
    await Promise.all(
      tasks.map(async (task) => {
        for (let n = 0; n < each; n += 1) await create(bench.repository, { task });
      }),
    );
  }

  async function handedOff(task: string) {
    await create(bench.repository, { task });
    return initiate(bench.repository, { task });
  }

  function sequences(task: string): number[] {
    return received.filter(({ subject }) => subject === task).map(({ sequence }) => sequence);
  }

  async function allReceived(tasks: readonly string[], each: number): Promise<void> {
    while (tasks.some((task) => sequences(task).length < each))
      await new Promise((resolve) => setTimeout(resolve, 10));
    for (const task of tasks) expect(sequences(task)).toEqual(Array.from({ length: each }, (_, i) => i + 1));
  }

  test("publishes in order per task, including the events from before its start", async () => {
    const tasks = Array.from({ length: 20 }, (_, i) => `early-${i}`);
    await write(tasks, 10);
    const stop = startRelay(context("a"));
    await drained();
    await allReceived(tasks, 10);
    await stop();
  });

  test("is shared by two instances, and one continues at once where the other stops", async () => {
    const tasks = Array.from({ length: 20 }, (_, i) => `shared-${i}`);
    const stopA = startRelay(context("a"));
    const stopB = startRelay(context("b"));
    const writing = write(tasks, 20);
    await write(["first"], 5);
    await stopA();
    await writing;
    await drained();
    await allReceived(tasks, 20);
    await stopB();
  });

  test("publishes an offer once for its agent type, and its event for all", async () => {
    const task = "offered";
    const { handoff_id: id } = await handedOff(task);
    const stop = startRelay(context("d"));
    await offer(bench.repository, id);
    await drained();
    await stop();
    const made = await bench.repository.handoff("default", { handoff_id: id });
    const mark = offerMarks(bench.format.message_key)("default", task);
    const offers: string[] = [];
    const arrived = Promise.withResolvers<void>();
    const stopTaking = await bus.consume(
      {
        stream: STREAMS.offers,
        durable: offerConsumer("default", "qa"),
        filters: [SUBJECTS.offersOf("default", "qa")],
        maxAckPending: 8,
        ackWaitMs: 10_000,
      },
      async ({ subject, body }) => {
        offers.push(`${subject} ${offerSchema.parse(JSON.parse(new TextDecoder().decode(body))).id}`);
        arrived.resolve();
      },
    );
    await arrived.promise;
    expect(offers).toEqual([`${SUBJECTS.offer("default", "qa", task, mark)} ${id}/1`]);
    expect(made).toMatchObject({ state: "offered", attempt: 1 });
    await allReceived([task], 4);
    await stopTaking();
    await expect.poll(() => bus.stream(STREAMS.offers).state()).toMatchObject({ messages: 0 });
  });

  test("publishes again after a crash before the removal, and the stream keeps one copy", async () => {
    const tasks = Array.from({ length: 12 }, (_, i) => `twice-${i}`);
    for (const task of tasks) {
      const { handoff_id } = await handedOff(task);
      await offer(bench.repository, handoff_id);
    }
    const lost = Promise.withResolvers<void>();
    const store = new Proxy(bench.store, {
      get: (target, name) => {
        const value = Reflect.get(target, name) as unknown;
        if (name !== "transact") return typeof value === "function" ? value.bind(target) : value;
        return (options: TransactOptions, body: (tx: Tx) => Promise<unknown>) => {
          if (options.label !== "clear_outbox") return target.transact(options, body);
          lost.resolve();
          return Promise.reject(new Error("the process ends here"));
        };
      },
    });
    const dying = startRelay({ ...context("e"), store });
    await lost.promise;
    await dying();
    const stop = startRelay(context("f"));
    await drained();
    await stop();
    const heads = await bus.stream(STREAMS.offers).state();
    expect(heads.messages).toBe(tasks.length);
    await allReceived(tasks, 4);
  });

  test("is not delayed by offers without room", async () => {
    const manager = await jetstreamManager(admin);
    const { config } = await manager.streams.info(STREAMS.offers);
    await manager.streams.update(STREAMS.offers, { ...config, max_msgs: 1 });
    const tasks = Array.from({ length: 3 }, (_, i) => `full-${i}`);
    const stop = startRelay(context("g"));
    for (const task of tasks) {
      const { handoff_id } = await handedOff(task);
      await offer(bench.repository, handoff_id);
    }
    await drained();
    await allReceived(tasks, 4);
    await stop();
    await manager.streams.update(STREAMS.offers, { ...config, max_msgs: -1 });
  });

  test("loses and reorders nothing in an outage of the bus", async () => {
    const tasks = Array.from({ length: 20 }, (_, i) => `outage-${i}`);
    const stop = startRelay(context("c"));
    const writing = write(tasks, 20);
    await write(["second"], 3);
    await nats.kill9();
    await writing;
    await nats.restart();
    await drained();
    await allReceived(tasks, 20);
    await stop();
  });
});
