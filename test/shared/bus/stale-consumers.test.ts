/**
 * Messages settled while the disk was full are in the work queue again after a restart of the server, and are
 * delivered.
 */
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { superviseNatsServer } from "../../../services/standalone/nats/supervisor.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { missingSmallDisk, openRoundFolders } from "../../fleet/faults/environment/round-folders.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

test("a stale consumer is removed, so that the queue empties, and any other is kept", async (context) => {
  const missing = missingSmallDisk();
  if (missing !== undefined) return context.skip(missing);
  const zone = openRoundFolders({ smallDisk: true });
  cleanups.push(() => zone.remove());
  const options = { root: projectRoot, env: process.env, port: -1, log: testLog };
  const server = await superviseNatsServer({ ...options, dir: join(zone.data, "nats") });
  cleanups.push(() => server.stop());
  const bus = await connectBus({ url: server.url, name: "x", identity: "x", log: testLog });
  cleanups.push(() => bus.close());
  await bus.reconcileStreams(fleetStreams({ storageBytes: server.current().storeBytesMax }));
  const queue = bus.stream(STREAMS.queue);
  const put = (n: number) =>
    bus.publishDurable(
      SUBJECTS.queue("default", "a", "t", "create"),
      { body: Buffer.from(String(n)) },
      { messageId: `m${n}`, timeoutMs: 1_000 },
    );
  for (const n of [1, 2, 3]) await put(n);
  const first = await queue.get(1);
  const partition = Number(first!.subject.split(".")[2]);

  const got: number[] = [];
  const gate = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const consumer = {
    ...{ stream: STREAMS.queue, durable: `writer-${partition}`, maxAckPending: 1, ackWaitMs: 5_000 },
    filters: [SUBJECTS.queuedPartition(partition)],
  };
  const stop = await bus.consume(consumer, async ({ body }) => {
    begun.resolve();
    await gate.promise;
    got.push(Number(Buffer.from(body).toString()));
  });
  cleanups.push(stop);
  await begun.promise;
  zone.fill();
  gate.resolve();
  await vi.waitFor(() => expect(got).toEqual([1, 2, 3]), { timeout: 10_000 });
  await expect(put(4), "the disk is full").rejects.toThrow();

  const before = server.current().pid;
  zone.free();
  await vi.waitFor(() => expect(server.current().pid).not.toBe(before), { timeout: 20_000, interval: 50 });
  const waiting = () => vi.waitFor(async () => (await queue.state()).messages, { timeout: 20_000 });
  // The server may have recorded some of the removals. The other messages are in the stream again.
  if ((await waiting()) > 0) expect(await queue.removeStaleConsumers()).toBe(1);
  await vi.waitFor(async () => expect(await waiting()).toBe(0), { timeout: 20_000 });
  expect(got.slice(3).every((n) => n <= 3)).toBe(true);
  expect(await queue.removeStaleConsumers()).toBe(0);
  await put(5);
  await vi.waitFor(() => expect(got.at(-1)).toBe(5), { timeout: 10_000 });
}, 90_000);
