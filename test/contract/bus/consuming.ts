/** Consumers and watchers of streams, also while the server is killed. */
import { jetstreamManager } from "@nats-io/jetstream";
import { expect } from "vitest";
import type { DurableMessage } from "../../../shared/bus/bus.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type BusBench, type ContractCases, collector, textIn } from "./bench.ts";

const event = (type: string, task: string) => SUBJECTS.event("default", type, task);
let counter = 0;
const emit = ({ bus }: BusBench, type: string, value: string) =>
  bus.publishDurable(
    event(type, "t1"),
    { body: Buffer.from(value) },
    { messageId: `c${++counter}`, timeoutMs: 60_000 },
  );
const options = (type: string, maxAckPending = 1) => ({
  stream: STREAMS.events,
  durable: `consumer-${type}`,
  filters: [`fleet.event.default.${type}.>`],
  maxAckPending,
  ackWaitMs: 30_000,
});

export const consumeCases: ContractCases = {
  "a failed message is delivered again, in order, and a dead one is not": async (bench) => {
    const got = collector(5);
    const stop = await bench.bus.consume(options("A"), async (message: DurableMessage) => {
      const value = textIn(message);
      got.add(value);
      if (value === "1" && !message.redelivered) throw new Error("not yet");
      if (value === "2") message.dead("hopeless");
    });
    for (const value of ["1", "2", "3", "4"]) await emit(bench, "A", value);
    await got.done;
    expect(got.seen).toEqual(["1", "1", "2", "3", "4"]);
    await stop();
  },

  "messages that a crashed consumer did not acknowledge go to the next consumer": async (bench) => {
    const taken = Promise.withResolvers<void>();
    const crashing = await bench.connect("crash");
    const brief = { ...options("B"), ackWaitMs: 2_000 };
    await crashing.consume(brief, () => {
      taken.resolve();
      return new Promise(() => {});
    });
    await emit(bench, "B", "1");
    await emit(bench, "B", "2");
    await taken.promise;
    await crashing.close({ drainMs: 0 });
    const seen: string[] = [];
    const later = Promise.withResolvers<void>();
    const stop = await bench.bus.consume(brief, async (message) => {
      seen.push(textIn(message));
      if (seen.at(-1) === "2") later.resolve();
    });
    await later.promise;
    // A slow machine may get the first one twice.
    expect([seen[0], seen.at(-1)]).toEqual(["1", "2"]);
    await stop();
  },

  "working() prevents a second delivery of a slow message": async (bench) => {
    const got = collector(1);
    const finished = Promise.withResolvers<void>();
    const stop = await bench.bus.consume({ ...options("C", 10), ackWaitMs: 5_000 }, async (message) => {
      got.add(textIn(message));
      const beat = setInterval(() => message.working(), 100);
      await new Promise((resolve) => setTimeout(resolve, 7_000));
      clearInterval(beat);
      finished.resolve();
    });
    await emit(bench, "C", "1");
    await finished.promise;
    await stop();
    expect(got.seen).toEqual(["1"]);
  },

  "consumers and watchers continue after a kill of the server": async (bench) => {
    const [worked, watched] = [collector(20), collector(20)];
    const seen = new Set<string>();
    const stopWork = await bench.bus.consume(options("D", 5), async (message) => {
      // A crash may lose acknowledgements, so a message may be delivered twice, but at least once.
      if (seen.has(textIn(message))) return;
      seen.add(textIn(message));
      worked.add(textIn(message));
    });
    const filter = "fleet.event.default.D.>";
    const stopWatch = await bench.bus.follow({ stream: STREAMS.events, filter, from: "new" }, (m) =>
      watched.add(textIn(m)),
    );
    for (let i = 0; i < 10; i++) await emit(bench, "D", String(i));
    await bench.crash();
    for (let i = 10; i < 20; i++) await emit(bench, "D", String(i));
    await Promise.all([worked.done, watched.done]);
    expect(watched.seen).toEqual(Array.from({ length: 20 }, (_, i) => String(i)));
    expect([...seen].sort()).toEqual(watched.seen.toSorted());
    await Promise.all([stopWork(), stopWatch()]);
  },

  "a watcher from `new` misses no message, even if it reconnects before the first": async (bench) => {
    await emit(bench, "E", "before");
    const watched = collector(1);
    const filter = "fleet.event.default.E.>";
    const stop = await bench.bus.follow({ stream: STREAMS.events, filter, from: "new" }, (m) =>
      watched.add(textIn(m)),
    );
    await bench.crash();
    await emit(bench, "E", "after");
    await watched.done;
    expect(watched.seen).toEqual(["after"]);
    await stop();
  },

  "a consumer with other settings is updated, and a removed one is created again": async (bench) => {
    const first = await bench.bus.consume(options("F", 1), async () => {});
    await first();
    const got = collector(1);
    const stop = await bench.bus.consume(options("F", 7), async (message) => got.add(textIn(message)));
    const admin = await bench.stranger();
    const manager = await jetstreamManager(admin);
    expect((await manager.consumers.info(STREAMS.events, "consumer-F")).config.max_ack_pending).toBe(7);
    await manager.consumers.delete(STREAMS.events, "consumer-F");
    await emit(bench, "F", "still here");
    await got.done;
    expect(got.seen).toEqual(["still here"]);
    await admin.close();
    await stop();
  },

  "a consumer with long pull requests continues at once after its removal and after a kill of the server":
    async (bench) => {
      const pullMs = 10 * 60_000;
      const [removed, restarted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      // The kill may lose an acknowledgement, so the first message may be delivered twice.
      const stop = await bench.bus.consume({ ...options("G"), pullMs }, async (message) =>
        (textIn(message) === "removed" ? removed : restarted).resolve(),
      );
      const admin = await bench.stranger();
      await (await jetstreamManager(admin)).consumers.delete(STREAMS.events, "consumer-G");
      await admin.close();
      await emit(bench, "G", "removed");
      await removed.promise;
      await bench.crash();
      await emit(bench, "G", "restarted");
      await restarted.promise;
      await stop();
    },

  "a new offer of a task replaces an older one that is not taken, and other tasks keep theirs": async (
    bench,
  ) => {
    const offer = (task: string, value: string) =>
      bench.bus.publishDurable(
        SUBJECTS.offer("default", "replaced", task),
        { body: Buffer.from(value) },
        { messageId: `offer-${++counter}`, timeoutMs: 60_000 },
      );
    await offer("t1", "first of t1");
    await offer("t2", "of t2");
    await offer("t1", "second of t1");
    const got = collector(2);
    const stop = await bench.bus.consume(
      {
        stream: STREAMS.offers,
        durable: "offers-replaced",
        filters: [SUBJECTS.offersOf("default", "replaced")],
        maxAckPending: 10,
        ackWaitMs: 30_000,
      },
      async (message) => got.add(textIn(message)),
    );
    await got.done;
    expect(got.seen.toSorted()).toEqual(["of t2", "second of t1"]);
    await stop();
    const left = () => bench.bus.stream(STREAMS.offers).count(SUBJECTS.offersOf("default", "replaced"));
    await expect.poll(left).toBe(0);
  },
};
