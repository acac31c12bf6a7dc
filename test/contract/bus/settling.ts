/** How messages of a stream are settled: order, redelivery, messages given back, and the pauses after failures. */
import { expect } from "vitest";
import type { ConsumeOptions, DurableMessage } from "../../../shared/bus/bus.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type BusBench, type ContractCases, collector, outText, textIn } from "./bench.ts";

const TYPE = "TASK_TAKEN";
let counter = 0;
const emit = async ({ bus }: BusBench, task: string, ...values: string[]) => {
  for (const value of values)
    await bus.publishDurable(SUBJECTS.event("default", TYPE, task), outText(value), {
      messageId: `settling-${++counter}`,
      timeoutMs: 60_000,
    });
};
const consumer = (task: string, changes: Partial<ConsumeOptions> = {}): ConsumeOptions => ({
  stream: STREAMS.events,
  durable: `settling-${task}`,
  filters: [SUBJECTS.event("default", TYPE, task)],
  maxAckPending: 1,
  ackWaitMs: 20_000,
  ...changes,
});

export const settlingCases: ContractCases = {
  "a message that is not settled in time is delivered again, with its count": async (bench) => {
    const deliveries: [number, boolean][] = [];
    const second = Promise.withResolvers<void>();
    const stop = await bench.service.consume(
      consumer("late", { ackWaitMs: 500, maxAckPending: 2 }),
      async (message) => {
        deliveries.push([message.deliveries, message.redelivered]);
        if (deliveries.length > 1) second.resolve();
        await second.promise;
      },
    );
    await emit(bench, "late", "a");
    await second.promise;
    await stop();
    expect(deliveries.slice(0, 2)).toEqual([
      [1, false],
      [2, true],
    ]);
  },

  "with one open message at a time, messages keep their order through failures and other consumers": async (
    bench,
  ) => {
    const seen = collector(7);
    const failing = new Set(["1", "3"]);
    const other = await bench.connect("other");
    const handle = async (message: DurableMessage) => {
      const value = textIn(message);
      seen.add(value);
      if (failing.delete(value)) throw new Error("the handler failed");
    };
    await emit(bench, "order", "1", "2", "3", "4", "5");
    const stops = await Promise.all([
      bench.service.consume(consumer("order"), handle),
      other.consume(consumer("order"), handle),
    ]);
    await seen.done;
    for (const stop of stops) await stop();
    expect(seen.seen).toEqual(["1", "1", "2", "3", "3", "4", "5"]);
  },

  "a failed message comes again after at least 250 ms, then 500 ms, then a second": async (bench) => {
    const at: number[] = [];
    const done = Promise.withResolvers<void>();
    const stop = await bench.service.consume(consumer("pauses"), async () => {
      at.push(performance.now());
      if (at.length < 4) throw new Error("the handler failed");
      done.resolve();
    });
    await emit(bench, "pauses", "a");
    await done.promise;
    await stop();
    const pauses = at.slice(1).map((time, i) => time - at[i]!);
    for (const [i, least] of [250, 500, 1_000].entries()) expect(pauses[i]).toBeGreaterThan(least * 0.95);
  },

  "a message that is given back goes to the next consumer before any later one": async (bench) => {
    await emit(bench, "back", "1", "2");
    const given = Promise.withResolvers<void>();
    // The first consumer may get the message again before it stops, and then leave it unsettled.
    const options = consumer("back", { ackWaitMs: 1_000 });
    const stop = await bench.service.consume(options, async (message) => {
      message.giveBack();
      given.resolve();
    });
    await given.promise;
    await stop();
    const seen: string[] = [];
    const later = Promise.withResolvers<void>();
    const other = await bench.connect("back");
    const stopNext = await other.consume(options, async (message) => {
      seen.push(textIn(message));
      if (seen.at(-1) === "2") later.resolve();
    });
    await later.promise;
    await stopNext();
    // A slow machine may get the first one twice.
    expect([seen[0], seen.at(-1)]).toEqual(["1", "2"]);
  },

  "a message that is given back with a pause comes after it, and before any later one": async (bench) => {
    const deliveries: { value: string; at: number }[] = [];
    const done = Promise.withResolvers<void>();
    const stop = await bench.service.consume(consumer("pause"), async (message) => {
      deliveries.push({ value: textIn(message), at: performance.now() });
      if (deliveries.length === 1) message.giveBack(600);
      if (deliveries.length === 3) done.resolve();
    });
    await emit(bench, "pause", "1", "2");
    await done.promise;
    await stop();
    expect(deliveries.map(({ value }) => value)).toEqual(["1", "1", "2"]);
    expect(deliveries[1]!.at - deliveries[0]!.at).toBeGreaterThan(570);
  },

  "a durable of new messages begins at its creation, and a stopped one continues where it was": async (
    bench,
  ) => {
    await emit(bench, "position", "before");
    const options = consumer("position", { from: "new" });
    const first = collector(1);
    const stop = await bench.service.consume(options, async (message) => first.add(textIn(message)));
    await emit(bench, "position", "1");
    await first.done;
    await stop();
    await emit(bench, "position", "2", "3");
    const second = collector(2);
    const stopAgain = await bench.service.consume(options, async (message) => second.add(textIn(message)));
    await second.done;
    await stopAgain();
    expect([first.seen, second.seen]).toEqual([["1"], ["2", "3"]]);
  },

  "stop waits for the open message, and no further one is taken": async (bench) => {
    const [begun, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const seen: string[] = [];
    const stop = await bench.service.consume(consumer("stop"), async (message) => {
      seen.push(textIn(message));
      begun.resolve();
      await release.promise;
    });
    await emit(bench, "stop", "1", "2");
    await begun.promise;
    let stopped = false;
    const stopping = stop().then(() => (stopped = true));
    await bench.service.stream(STREAMS.events).state();
    expect(stopped).toBe(false);
    release.resolve();
    await stopping;
    const rest = collector(1);
    const stopRest = await bench.service.consume(consumer("stop"), async (message) =>
      rest.add(textIn(message)),
    );
    await rest.done;
    await stopRest();
    expect([seen, rest.seen]).toEqual([["1"], ["2"]]);
  },

  "messages are spread over the consumers of a durable, each to one of them": async (bench) => {
    const values = Array.from({ length: 40 }, (_, i) => String(i));
    const all = collector(values.length);
    const counts = [0, 0];
    const other = await bench.connect("spread");
    const stops = await Promise.all(
      [bench.service, other].map((bus, i) =>
        bus.consume(consumer("spread", { maxAckPending: 4 }), async (message) => {
          counts[i]! += 1;
          await new Promise((resolve) => setTimeout(resolve, 5));
          all.add(textIn(message));
        }),
      ),
    );
    await emit(bench, "spread", ...values);
    await all.done;
    for (const stop of stops) await stop();
    expect(all.seen.toSorted()).toEqual(values.toSorted());
    expect(Math.min(...counts)).toBeGreaterThan(0);
  },
};
