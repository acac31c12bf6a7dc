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

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "consumer", identity: "consumer", log: testLog });
  await bus.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
});

afterAll(async () => {
  await bus?.close();
  await nats?.stop();
});

const event = (type: string, task: string) => SUBJECTS.event("default", type, task);
const text = (message: { body: Uint8Array }) => Buffer.from(message.body).toString();
let counter = 0;
const emit = (type: string, value: string) =>
  bus.publishDurable(
    event(type, "t1"),
    { body: Buffer.from(value) },
    { messageId: `c${++counter}`, timeoutMs: 20_000 },
  );
const options = (type: string, maxAckPending = 1) => ({
  stream: STREAMS.events,
  durable: `consumer-${type}`,
  filters: [`fleet.event.default.${type}.>`],
  maxAckPending,
  ackWaitMs: 2_000,
});

/** Collects messages until `count` handler calls have ended. */
function collector(count: number) {
  const seen: string[] = [];
  const done = Promise.withResolvers<void>();
  return {
    seen,
    done: done.promise,
    add(value: string) {
      seen.push(value);
      if (seen.length === count) done.resolve();
    },
  };
}

test("a failed message is delivered again, in order, and a dead one is not", async () => {
  const got = collector(5);
  const stop = await bus.consume(options("A"), async (message: DurableMessage) => {
    const value = text(message);
    got.add(value);
    if (value === "1" && !message.redelivered) throw new Error("not yet");
    if (value === "2") message.dead("hopeless");
  });
  for (const value of ["1", "2", "3", "4"]) await emit("A", value);
  await got.done;
  expect(got.seen).toEqual(["1", "1", "2", "3", "4"]);
  await stop();
});

test("messages that a crashed consumer did not acknowledge go to the next consumer", async () => {
  const taken = Promise.withResolvers<void>();
  const crashing = await connectBus({ url: nats.url, name: "crash", identity: "crash", log: testLog });
  await crashing.consume(options("B"), () => {
    taken.resolve();
    return new Promise(() => {});
  });
  await emit("B", "1");
  await emit("B", "2");
  await taken.promise;
  await crashing.close({ drainMs: 0 });
  const got = collector(2);
  const stop = await bus.consume(options("B"), async (message) => got.add(text(message)));
  await got.done;
  expect(got.seen).toEqual(["1", "2"]);
  await stop();
});

test("working() prevents a second delivery of a slow message", async () => {
  const got = collector(1);
  const finished = Promise.withResolvers<void>();
  const stop = await bus.consume({ ...options("C", 10), ackWaitMs: 500 }, async (message) => {
    got.add(text(message));
    const beat = setInterval(() => message.working(), 100);
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    clearInterval(beat);
    finished.resolve();
  });
  await emit("C", "1");
  await finished.promise;
  await stop();
  expect(got.seen).toEqual(["1"]);
});

test("consumers and watchers continue after a kill of the server", async () => {
  const [worked, watched] = [collector(20), collector(20)];
  const seen = new Set<string>();
  const stopWork = await bus.consume(options("D", 5), async (message) => {
    // A crash may lose acknowledgements, so a message may be delivered twice, but at least once.
    if (seen.has(text(message))) return;
    seen.add(text(message));
    worked.add(text(message));
  });
  const filter = "fleet.event.default.D.>";
  const stopWatch = await bus.follow({ stream: STREAMS.events, filter, from: "new" }, (m) =>
    watched.add(text(m)),
  );
  for (let i = 0; i < 10; i++) await emit("D", String(i));
  await nats.kill9();
  await nats.restart();
  for (let i = 10; i < 20; i++) await emit("D", String(i));
  await Promise.all([worked.done, watched.done]);
  expect(watched.seen).toEqual(Array.from({ length: 20 }, (_, i) => String(i)));
  expect([...seen].sort()).toEqual(watched.seen.toSorted());
  await Promise.all([stopWork(), stopWatch()]);
});

test("a watcher from `new` misses no message, even if it reconnects before the first", async () => {
  await emit("E", "before");
  const watched = collector(1);
  const filter = "fleet.event.default.E.>";
  const stop = await bus.follow({ stream: STREAMS.events, filter, from: "new" }, (m) => watched.add(text(m)));
  await nats.kill9();
  await nats.restart();
  await emit("E", "after");
  await watched.done;
  expect(watched.seen).toEqual(["after"]);
  await stop();
});

test("a consumer with other settings is updated, and a removed one is created again", async () => {
  const first = await bus.consume(options("F", 1), async () => {});
  await first();
  const got = collector(1);
  const stop = await bus.consume(options("F", 7), async (message) => got.add(text(message)));
  const admin = await connect({ servers: nats.url });
  const manager = await jetstreamManager(admin);
  expect((await manager.consumers.info(STREAMS.events, "consumer-F")).config.max_ack_pending).toBe(7);
  await manager.consumers.delete(STREAMS.events, "consumer-F");
  await emit("F", "still here");
  await got.done;
  expect(got.seen).toEqual(["still here"]);
  await admin.close();
  await stop();
});

test("a consumer with long pull requests continues at once after its removal and after a kill of the server", async () => {
  const pullMs = 10 * 60_000;
  const [removed, restarted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  // The kill may lose an acknowledgement, so the first message may be delivered twice.
  const stop = await bus.consume({ ...options("G"), pullMs }, async (message) =>
    (text(message) === "removed" ? removed : restarted).resolve(),
  );
  const admin = await connect({ servers: nats.url });
  await (await jetstreamManager(admin)).consumers.delete(STREAMS.events, "consumer-G");
  await admin.close();
  await emit("G", "removed");
  await removed.promise;
  await nats.kill9();
  await nats.restart();
  await emit("G", "restarted");
  await restarted.promise;
  await stop();
});

test("a new offer of a task replaces an older one that is not taken, and other tasks keep theirs", async () => {
  const offer = (task: string, value: string) =>
    bus.publishDurable(
      SUBJECTS.offer("default", "replaced", task),
      { body: Buffer.from(value) },
      { messageId: `offer-${++counter}`, timeoutMs: 20_000 },
    );
  await offer("t1", "first of t1");
  await offer("t2", "of t2");
  await offer("t1", "second of t1");
  const got = collector(2);
  const stop = await bus.consume(
    {
      stream: STREAMS.offers,
      durable: "offers-replaced",
      filters: [SUBJECTS.offersOf("default", "replaced")],
      maxAckPending: 10,
      ackWaitMs: 2_000,
    },
    async (message) => got.add(text(message)),
  );
  await got.done;
  expect(got.seen.toSorted()).toEqual(["of t2", "second of t1"]);
  await stop();
  const left = () => bus.stream(STREAMS.offers).count(SUBJECTS.offersOf("default", "replaced"));
  await expect.poll(left).toBe(0);
});
