/** Ids of durable messages: a client that stores a message in advance cannot make a stream drop one of a service. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Bus, OrderedMessage } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { messageIds } from "../../../shared/bus/publish/message-ids.ts";
import { offerMarks } from "../../../shared/bus/publish/offer-marks.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

const KEY = randomBytes(32).toString("hex");
const TIMEOUT = { timeoutMs: 20_000 };

let nats: TestNats;
let service: Bus;
let attacker: Bus;

beforeAll(async () => {
  nats = await startNats();
  const options = { url: nats.url, log: testLog };
  service = await connectBus({ ...options, name: "service", identity: "service", messageKey: KEY });
  attacker = await connectBus({ ...options, name: "attacker", identity: "attacker" });
  await service.reconcileStreams(fleetStreams({ storageBytes: 512 * 1024 * 1024 }));
});

afterAll(async () => {
  await Promise.all([service?.close(), attacker?.close()]);
  await nats?.stop();
});

const subjectOf = (task: string) => SUBJECTS.event("default", "TASK_TAKEN", task);
const body = (text: string) => Buffer.from(text);

async function stored(task: string): Promise<string[]> {
  const messages = await service.stream(STREAMS.events).newest({ filter: subjectOf(task), limit: 100 });
  return messages.map((message) => Buffer.from(message.body).toString()).reverse();
}

const store = (bus: Bus, task: string, text: string, messageId: string) =>
  bus.publishDurable(subjectOf(task), { body: body(text) }, { messageId, ...TIMEOUT });

test("an id cannot be reserved by a client that knows the name of the message", async () => {
  await store(attacker, "elsewhere", "forged", "default/one/1");
  expect(await store(service, "one", "real", "default/one/1")).toMatchObject({ duplicate: false });
  expect(await stored("one")).toEqual(["real"]);
});

test("a batch is stored, although a client has taken the names of its messages", async () => {
  const batch: OrderedMessage[] = Array.from({ length: 20 }, (_, i) => ({
    subject: subjectOf("batch"),
    body: body(`real ${i}`),
    messageId: `default/batch/${i}`,
    orderKey: "batch",
  }));
  for (const { messageId } of batch.slice(5, 8)) await store(attacker, "elsewhere", "forged", messageId);
  await service.publishOrdered(batch, TIMEOUT);
  await service.publishOrdered(batch, TIMEOUT);
  expect(await stored("batch")).toEqual(batch.map((_, i) => `real ${i}`));
});

test.each([
  ["under another subject", "elsewhere", "real"],
  ["with another body", "taken", "forged"],
])("a copy that the stream reports is not trusted if it was stored %s", async (name, task, text) => {
  const real = name.replaceAll(" ", "-");
  // The attacker has even the key.
  const id = messageIds(KEY).of(real);
  await store(attacker, task === "taken" ? real : task, text, id);
  expect(await store(service, real, "real", real)).toMatchObject({ duplicate: false });
  expect(await store(service, real, "real", real)).toMatchObject({ duplicate: true });
  expect((await stored(real)).filter((one) => one === "real")).toHaveLength(1);
});

test("a copy of a message that was removed since is stored again", async () => {
  const subject = SUBJECTS.dead("default", STREAMS.queue, "not_found", "removed");
  const letters = service.stream(STREAMS.dead);
  const letter = () =>
    service.publishDurable(subject, { body: body("real") }, { messageId: "removed", ...TIMEOUT });
  const { seq } = await letter();
  expect(await letter()).toMatchObject({ seq, duplicate: true });
  expect(await letters.remove(seq)).toBe(true);
  expect(await letter()).toMatchObject({ duplicate: false });
  expect(await letters.count(subject)).toBe(1);
});

test("a message that a work queue removed since is not stored again, alone or in a batch", async () => {
  const offers = service.stream(STREAMS.offers);
  const expected = { ...TIMEOUT, expectsRemoval: true };
  const batch: OrderedMessage[] = ["first", "newer"].map((text) => ({
    subject: SUBJECTS.offer("default", "worker", "offered"),
    body: body(text),
    messageId: `offer ${text}`,
    orderKey: "offered",
  }));
  await service.publishOrdered(batch, expected);
  const count = () => offers.count(SUBJECTS.offer("default", "worker", "offered"));
  // The newer offer has removed the first one.
  expect(await count()).toBe(1);
  await service.publishOrdered(batch, expected);
  const taken = Promise.withResolvers<string>();
  const stop = await service.consume(
    { stream: STREAMS.offers, durable: "taker", maxAckPending: 1, ackWaitMs: 20_000, from: "all" },
    async (message) => taken.resolve(Buffer.from(message.body).toString()),
  );
  expect(await taken.promise).toBe("newer");
  await expect.poll(count).toBe(0);
  await stop();
  await service.publishOrdered(batch, expected);
  const [, newer] = batch as [OrderedMessage, OrderedMessage];
  const alone = { ...expected, messageId: newer.messageId };
  expect(await service.publishDurable(newer.subject, newer, alone)).toMatchObject({ duplicate: true });
  expect(await count()).toBe(0);
});

test("a shared id is the same from a service and from a client", async () => {
  const shared = { messageId: "shared", isSharedId: true, ...TIMEOUT };
  await service.publishDurable(subjectOf("shared"), { body: body("real") }, shared);
  expect(await store(attacker, "shared", "real", "shared")).toMatchObject({ duplicate: true });
});

test("the mark of offers is another one for each key, tenant and task, and the same for all offers of a task", () => {
  const markOf = offerMarks(KEY);
  const marks = [
    markOf("default", "one"),
    markOf("default", "two"),
    markOf("other", "one"),
    offerMarks(randomBytes(32).toString("hex"))("default", "one"),
    messageIds(KEY).of("default/one"),
  ];
  expect(new Set(marks).size).toBe(marks.length);
  expect(offerMarks(KEY)("default", "one")).toBe(marks[0]);
  expect(marks[0]).toMatch(/^[A-Za-z0-9_-]{43}$/);
  expect(SUBJECTS.offer("default", "qa", "one", marks[0])).toBe(`fleet.offer.default.qa.one=${marks[0]}`);
  expect(() => SUBJECTS.offer("default", "qa", "one=two", marks[0])).toThrow();
  expect(() => SUBJECTS.offer("default", "qa", "one", "two=three")).toThrow();
});
