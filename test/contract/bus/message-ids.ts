/** Ids of durable messages: a client that stores a message in advance cannot make a stream drop one of a service. */
import { expect } from "vitest";
import type { Bus, OrderedMessage } from "../../../shared/bus/bus.ts";
import { messageIds } from "../../../shared/bus/publish/message-ids.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type BusBench, type ContractCases, MESSAGE_KEY } from "./bench.ts";

const TIMEOUT = { timeoutMs: 60_000 };

const subjectOf = (task: string) => SUBJECTS.event("default", "TASK_TAKEN", task);
const body = (text: string) => Buffer.from(text);

async function stored(service: Bus, task: string): Promise<string[]> {
  const messages = await service.stream(STREAMS.events).newest({ filter: subjectOf(task), limit: 100 });
  return messages.map((message) => Buffer.from(message.body).toString()).reverse();
}

const store = (bus: Bus, task: string, text: string, messageId: string) =>
  bus.publishDurable(subjectOf(task), { body: body(text) }, { messageId, ...TIMEOUT });

/** `task`: of the message that was stored under the id before. */
async function storeUnderTakenId(bench: BusBench, name: string, task: string, text: string): Promise<void> {
  // The attacker has even the key.
  await store(bench.bus, task, text, messageIds(MESSAGE_KEY).of(name));
  expect(await store(bench.service, name, "real", name)).toMatchObject({ duplicate: false });
  expect(await store(bench.service, name, "real", name)).toMatchObject({ duplicate: true });
  expect((await stored(bench.service, name)).filter((one) => one === "real")).toHaveLength(1);
}

export const messageIdCases: ContractCases = {
  "an id cannot be reserved by a client that knows the name of the message": async (bench) => {
    await store(bench.bus, "elsewhere", "forged", "default/one/1");
    expect(await store(bench.service, "one", "real", "default/one/1")).toMatchObject({ duplicate: false });
    expect(await stored(bench.service, "one")).toEqual(["real"]);
  },

  "a batch is stored, although a client has taken the names of its messages": async (bench) => {
    const batch: OrderedMessage[] = Array.from({ length: 20 }, (_, i) => ({
      subject: subjectOf("batch"),
      body: body(`real ${i}`),
      messageId: `default/batch/${i}`,
      orderKey: "batch",
    }));
    for (const { messageId } of batch.slice(5, 8)) await store(bench.bus, "elsewhere", "forged", messageId);
    await bench.service.publishOrdered(batch, TIMEOUT);
    await bench.service.publishOrdered(batch, TIMEOUT);
    expect(await stored(bench.service, "batch")).toEqual(batch.map((_, i) => `real ${i}`));
  },

  "a copy that the stream reports is not trusted if it was stored under another subject": (bench) =>
    storeUnderTakenId(bench, "under-another-subject", "elsewhere", "real"),

  "a copy that the stream reports is not trusted if it was stored with another body": (bench) =>
    storeUnderTakenId(bench, "with-another-body", "with-another-body", "forged"),

  "a copy of a message that was removed since is stored again": async (bench) => {
    const subject = SUBJECTS.dead("default", STREAMS.queue, "not_found", "removed");
    const letters = bench.service.stream(STREAMS.dead);
    const letter = () =>
      bench.service.publishDurable(subject, { body: body("real") }, { messageId: "removed", ...TIMEOUT });
    const { seq } = await letter();
    expect(await letter()).toMatchObject({ seq, duplicate: true });
    expect(await letters.remove(seq)).toBe(true);
    expect(await letter()).toMatchObject({ duplicate: false });
    expect(await letters.count(subject)).toBe(1);
  },

  "a message that a work queue removed since is not stored again, alone or in a batch": async (bench) => {
    const offers = bench.service.stream(STREAMS.offers);
    const expected = { ...TIMEOUT, expectsRemoval: true };
    const batch: OrderedMessage[] = ["first", "newer"].map((text) => ({
      subject: SUBJECTS.offer("default", "worker", "offered"),
      body: body(text),
      messageId: `offer ${text}`,
      orderKey: "offered",
    }));
    await bench.service.publishOrdered(batch, expected);
    const count = () => offers.count(SUBJECTS.offer("default", "worker", "offered"));
    // The newer offer has removed the first one.
    expect(await count()).toBe(1);
    await bench.service.publishOrdered(batch, expected);
    const taken = Promise.withResolvers<string>();
    const stop = await bench.service.consume(
      { stream: STREAMS.offers, durable: "taker", maxAckPending: 1, ackWaitMs: 20_000, from: "all" },
      async (message) => taken.resolve(Buffer.from(message.body).toString()),
    );
    expect(await taken.promise).toBe("newer");
    await expect.poll(count).toBe(0);
    await stop();
    await bench.service.publishOrdered(batch, expected);
    const [, newer] = batch as [OrderedMessage, OrderedMessage];
    const alone = { ...expected, messageId: newer.messageId };
    expect(await bench.service.publishDurable(newer.subject, newer, alone)).toMatchObject({
      duplicate: true,
    });
    expect(await count()).toBe(0);
  },

  "a shared id is the same from a service and from a client": async (bench) => {
    const shared = { messageId: "shared", isSharedId: true, ...TIMEOUT };
    await bench.service.publishDurable(subjectOf("shared"), { body: body("real") }, shared);
    expect(await store(bench.bus, "shared", "real", "shared")).toMatchObject({ duplicate: true });
  },
};
