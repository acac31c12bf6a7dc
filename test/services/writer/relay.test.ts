/** The relay against a real nats-server: everything committed is published, in order per task, by whichever instance works. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startRelay } from "../../../services/writer/relay.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { outboxBacklog } from "../../../shared/records/outbox.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/metrics.ts";
import { startNats, testLog } from "../../harness/nats.ts";
import { type Bench, create, openBench } from "../../harness/records.ts";

describe("relay", () => {
  let nats: Awaited<ReturnType<typeof startNats>>;
  let bus: Bus;
  let bench: Bench;
  const received: FleetEvent[] = [];

  beforeAll(async () => {
    nats = await startNats();
    bus = await connectBus({ url: nats.url, name: "relay-test", identity: "relay-test", log: testLog });
    await bus.reconcileStreams(fleetStreams({ storageBytes: 1_000_000_000 }));
    bench = await openBench("memory");
    await bus.follow({ stream: STREAMS.events, filter: SUBJECTS.everyEvent, from: "all" }, (message) => {
      received.push(JSON.parse(new TextDecoder().decode(message.body)) as FleetEvent);
    });
  });
  afterAll(async () => {
    await bus.close();
    await bench.close();
    await nats.stop();
  });

  const context = (instance: string) => ({
    store: bench.store,
    bus,
    instance,
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

  function sequences(task: string): number[] {
    return received.filter(({ subject }) => subject === task).map(({ sequence }) => sequence);
  }

  async function allReceived(tasks: readonly string[], each: number): Promise<void> {
    while (tasks.some((task) => sequences(task).length < each))
      await new Promise((resolve) => setTimeout(resolve, 10));
    for (const task of tasks) expect(sequences(task)).toEqual(Array.from({ length: each }, (_, i) => i + 1));
  }

  test("publishes in order per task, with what was waiting before it started", async () => {
    const tasks = Array.from({ length: 20 }, (_, i) => `early-${i}`);
    await write(tasks, 10);
    const stop = startRelay(context("a"));
    await drained();
    await allReceived(tasks, 10);
    await stop();
  });

  test("two instances share the work, and one goes on at once where the other stops", async () => {
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

  test("an outage of the bus in the middle loses nothing and reorders nothing", async () => {
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
