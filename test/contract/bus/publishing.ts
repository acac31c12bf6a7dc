/** Durable messages, alone and in batches, also while the server is killed. */
import { expect } from "vitest";
import { type Bus, BusError, type Message, type OrderedMessage } from "../../../shared/bus/bus.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type BusBench, type ContractCases, failureKind } from "./bench.ts";

/** One stream with atomic batches and one without. On an older server every stream is like the second. */
export async function preparePublishing({ bus }: BusBench): Promise<void> {
  const [events, alerts, queue] = fleetStreams({ storageBytes: 512 * 1024 * 1024 });
  await bus.reconcileStreams([events!, { ...alerts!, atomic: false }, queue!]);
}

const event = (task: string) => SUBJECTS.event("default", "CHECKPOINT_CREATED", task);
const alert = (task: string) => SUBJECTS.alert("default", "info", task);
const ordered = (task: string, place: number, subject = event): OrderedMessage => ({
  subject: subject(task),
  body: Buffer.from(`${task}:${place}`),
  messageId: `${task}-${place}`,
  orderKey: task,
});

/** The messages of some tasks in stream order, up to a marker that is published last. */
async function stored(
  bus: Bus,
  tasks: string[],
  stream: string = STREAMS.events,
  subject = event,
): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>(tasks.map((task) => [task, []]));
  const mark = crypto.randomUUID();
  const end = Promise.withResolvers<void>();
  const stop = await bus.follow({ stream, filter: ">", from: "all" }, (message: Message) => {
    const text = Buffer.from(message.body).toString();
    if (text === mark) end.resolve();
    found.get(text.split(":")[0] ?? "")?.push(text);
  });
  await bus.publishDurable(
    subject("mark"),
    { body: Buffer.from(mark) },
    { messageId: mark, timeoutMs: 60_000 },
  );
  await end.promise;
  await stop();
  return found;
}

const sequence = (task: string, count: number) => Array.from({ length: count }, (_, i) => `${task}:${i}`);

/** A batch of 20 messages, 40 times, and two kills of the server. */
async function publishThroughKills(
  bench: BusBench,
  { stream, subject, tasks }: { stream: string; subject: typeof event; tasks: string[] },
): Promise<void> {
  const batches = Array.from({ length: 40 }, (_, b) =>
    tasks.flatMap((task) => Array.from({ length: 5 }, (_, i) => ordered(task, b * 5 + i, subject))),
  );
  const send = async (batch: OrderedMessage[]) => {
    for (;;) {
      try {
        return await bench.bus.publishOrdered(batch, { timeoutMs: 2_000 });
      } catch (error) {
        if (!(error instanceof BusError && error.retryable)) throw error;
      }
    }
  };
  let crash: Promise<void> | undefined;
  for (const [b, batch] of batches.entries()) {
    const sending = send(batch);
    if (b === 10 || b === 25) {
      await crash;
      crash = bench.crash();
    }
    await sending;
  }
  await crash;
  const found = await stored(bench.bus, tasks, stream, subject);
  for (const task of tasks) expect(found.get(task)).toEqual(sequence(task, 200));
}

export const publishCases: ContractCases = {
  "a durable publish is stored once, also if it is repeated": async (bench) => {
    const send = () =>
      bench.bus.publishDurable(
        event("once"),
        { body: Buffer.from("once:0") },
        { messageId: "once", timeoutMs: 60_000 },
      );
    const first = await send();
    expect(first).toMatchObject({ stream: STREAMS.events, duplicate: false });
    expect(await send()).toEqual({ ...first, duplicate: true });
    await Promise.all([send(), send(), send()]);
    expect((await stored(bench.bus, ["once"])).get("once")).toEqual(["once:0"]);
  },

  "a subject without a stream, and a message too large for its stream, are refused": async (bench) => {
    const out = { body: Buffer.from("x") };
    // Each attempt fails at once, but a slow machine may not have the time for the last one.
    const nowhere = () =>
      failureKind(bench.bus.publishDurable("t.nowhere", out, { messageId: "n", timeoutMs: 200 }));
    await expect.poll(nowhere, { timeout: 60_000 }).toBe("no_responders");
    const large = { body: new Uint8Array(300_000) };
    await expect(
      bench.bus.publishDurable(event("large"), large, { messageId: "l", timeoutMs: 60_000 }),
    ).rejects.toMatchObject({
      kind: "too_large",
    });
  },

  "a batch keeps the order of each key, also across streams and when it is repeated": async (bench) => {
    const batch = Array.from({ length: 300 }, (_, i) => ordered(`b${i % 7}`, Math.floor(i / 7)));
    await bench.bus.publishOrdered(batch, { timeoutMs: 60_000 });
    await bench.bus.publishOrdered(batch, { timeoutMs: 60_000 });
    const other = ordered("b0", 43, alert);
    await bench.bus.publishOrdered([ordered("b0", 43), other, ordered("b0", 44)], { timeoutMs: 60_000 });
    const found = await stored(bench.bus, ["b0", "b3"]);
    expect(found.get("b0")).toEqual(sequence("b0", 45));
    expect(found.get("b3")).toEqual(sequence("b3", 43));
  },

  "a batch that overlaps with stored messages completes them in order": async (bench) => {
    await bench.bus.publishOrdered(
      [0, 1, 2].map((i) => ordered("half", i)),
      { timeoutMs: 60_000 },
    );
    await bench.bus.publishOrdered(
      [1, 2, 3, 4].map((i) => ordered("half", i)),
      { timeoutMs: 60_000 },
    );
    expect((await stored(bench.bus, ["half"])).get("half")).toEqual(sequence("half", 5));
  },

  "a batch with an unstorable message fails, and no later message of its key is stored": async (bench) => {
    const large = { ...ordered("poison", 1), body: new Uint8Array(300_000) };
    const batch = [ordered("poison", 0), large, ordered("poison", 2)];
    await expect(bench.bus.publishOrdered(batch, { timeoutMs: 60_000 })).rejects.toMatchObject({
      kind: "too_large",
      retryable: false,
    });
    expect((await stored(bench.bus, ["poison"])).get("poison")).not.toContain("poison:2");
  },

  "kill -9 in the middle of batches loses nothing and reorders nothing": (bench) =>
    publishThroughKills(bench, { stream: STREAMS.events, subject: event, tasks: ["k0", "k1", "k2", "k3"] }),

  "kill -9 in the middle of single messages loses nothing and reorders nothing": (bench) =>
    publishThroughKills(bench, { stream: STREAMS.alerts, subject: alert, tasks: ["o0", "o1", "o2", "o3"] }),

  "the retries of single durable publishes survive a kill -9 of the server": async (bench) => {
    const crash = bench.crash();
    for (let i = 0; i < 20; i++) {
      await bench.bus.publishDurable(
        event("solo"),
        { body: Buffer.from(`solo:${i}`) },
        { messageId: `solo-${i}`, timeoutMs: 60_000 },
      );
    }
    await crash;
    expect((await stored(bench.bus, ["solo"])).get("solo")).toEqual(sequence("solo", 20));
  },
};
