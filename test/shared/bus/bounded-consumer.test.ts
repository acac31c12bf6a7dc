/** Several processes on one durable, each with its own limit, on a real server. */
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus, DurableMessage } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

let nats: TestNats;
let bus: Bus;
let counter = 0;

const connectTo = (identity: string) => connectBus({ url: nats.url, name: identity, identity, log: testLog });

beforeAll(async () => {
  nats = await startNats();
  bus = await connectTo("consumer");
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
});
afterAll(async () => {
  await bus?.close();
  await nats?.stop();
});

const text = (message: { body: Uint8Array }) => Buffer.from(message.body).toString();
const emit = (type: string, value: string) =>
  bus.publishDurable(
    SUBJECTS.event("default", type, "t1"),
    { body: Buffer.from(value) },
    { messageId: `t${++counter}`, timeoutMs: 20_000 },
  );
const options = (type: string, concurrencyMax: number) => ({
  stream: STREAMS.events,
  durable: `bounded-${type}`,
  filters: [`fleet.event.default.${type}.>`],
  maxAckPending: 100,
  ackWaitMs: 2_000,
  concurrencyMax,
});

test("no more handlers run at once than allowed, and another process gets the other messages", async () => {
  const other = await connectTo("other");
  const [here, there]: [string[], string[]] = [[], []];
  const [full, seen, release] = [
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
    Promise.withResolvers<void>(),
  ];
  const stop = await bus.consume(options("A", 2), async (message) => {
    here.push(text(message));
    message.ack();
    if (here.length === 2) full.resolve();
    await release.promise;
  });
  for (const value of ["1", "2"]) await emit("A", value);
  await full.promise;
  for (const value of ["3", "4", "5"]) await emit("A", value);
  const stopOther = await other.consume(options("A", 1), async (message) => {
    there.push(text(message));
    if (there.length === 3) seen.resolve();
  });
  await seen.promise;
  expect([here, there]).toEqual([
    ["1", "2"],
    ["3", "4", "5"],
  ]);
  release.resolve();
  await Promise.all([stop(), stopOther()]);
  await other.close();
});

test("a message given back with a pause is delivered again, one acknowledged early is not", async () => {
  const got: string[] = [];
  const done = Promise.withResolvers<void>();
  const stop = await bus.consume(options("B", 1), async (message: DurableMessage) => {
    got.push(text(message));
    if (got.length === 1) return message.giveBack(300);
    if (text(message) === "2") {
      message.ack();
      throw new Error("after the acknowledgement");
    }
    done.resolve();
  });
  await emit("B", "1");
  await emit("B", "2");
  await done.promise;
  expect(got).toEqual(["1", "2", "1"]);
  await stop();
});

test("an idle consumer stops at once, a busy one waits for its handler", async () => {
  const idle = await bus.consume(options("C", 3), async () => {});
  const begin = performance.now();
  await idle();
  // A stop that waited for the end of its pull would take 5 s.
  expect(performance.now() - begin).toBeLessThan(4_000);

  const [begun, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let ended = false;
  const stop = await bus.consume(options("C", 3), async () => {
    begun.resolve();
    await release.promise;
    ended = true;
  });
  await emit("C", "1");
  await begun.promise;
  const stopped = stop().then(() => ended);
  release.resolve();
  expect(await stopped).toBe(true);
});

test("consumers continue after a kill of the server, and after the durable was removed", async () => {
  const seen = new Set<string>();
  const waiting = new Map<string, () => void>();
  const stop = await bus.consume(options("D", 2), async (message) => {
    seen.add(text(message));
    waiting.get(text(message))?.();
  });
  const arrival = (value: string) => new Promise<void>((resolve) => waiting.set(value, resolve));
  const first = arrival("1");
  await emit("D", "1");
  await first;
  await nats.kill9();
  await nats.restart();
  const second = arrival("2");
  await emit("D", "2");
  await second;
  const connection = await connect({ servers: nats.url });
  await (await jetstreamManager(connection)).consumers.delete(STREAMS.events, "bounded-D");
  await connection.close();
  const third = arrival("3");
  await emit("D", "3");
  await third;
  expect([...seen].sort()).toEqual(["1", "2", "3"]);
  await stop();
}, 60_000);
