/** The newest messages of a subject, from streams in which they are dense, sparse, or both. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";

let nats: TestNats;
let bus: Bus;

beforeAll(async () => {
  nats = await startNats();
  bus = await connectBus({ url: nats.url, name: "viewer", identity: "viewer", log: testLog });
});
afterAll(async () => {
  await bus?.close();
  await nats?.stop();
});

let counter = 0;

/** Creates a stream with one message for each letter, under that letter's subject. */
async function streamOf(letters: string): Promise<string> {
  counter += 1;
  const name = `VIEW_${counter}`;
  const spec = { ...fleetStreams()[1]!, name, subjects: [`view.${counter}.>`], maxBytes: 8 * 1024 * 1024 };
  await bus.reconcileStreams([spec]);
  const messages = [...letters].map((letter, i) => ({
    subject: `view.${counter}.${letter}`,
    body: Buffer.from(String(i + 1)),
    messageId: `${name}/${i}`,
    orderKey: "one",
  }));
  for (let at = 0; at < messages.length; at += 500) {
    await bus.publishOrdered(messages.slice(at, at + 500), { timeoutMs: 20_000 });
  }
  return name;
}

const newest = async (stream: string, letter: string, limit: number, before?: number) => {
  const filter = `view.${stream.slice("VIEW_".length)}.${letter}`;
  const found = await bus.stream(stream).newest({ filter, limit, before });
  for (const { seq, body, subject } of found) {
    expect(Buffer.from(body).toString()).toBe(String(seq));
    if (letter !== "*") expect(subject).toBe(filter);
  }
  return found.map(({ seq }) => seq);
};

describe("the newest messages", () => {
  test("are read from the end, or before a position, up to the limit", async () => {
    const stream = await streamOf("aababbab");
    expect(await newest(stream, "*", 3)).toEqual([8, 7, 6]);
    expect(await newest(stream, "a", 2)).toEqual([7, 4]);
    expect(await newest(stream, "a", 2, 4)).toEqual([2, 1]);
    expect(await newest(stream, "a", 9)).toEqual([7, 4, 2, 1]);
    expect(await newest(stream, "a", 9, 1)).toEqual([]);
    expect(await newest(stream, "c", 9)).toEqual([]);
    expect(await newest(stream, "*", 2, 1_000)).toEqual([8, 7]);
  });

  test("are none in an empty stream", async () => {
    expect(await newest(await streamOf(""), "*", 5)).toEqual([]);
  });

  test("are found far behind others, and in a dense part before a sparse one", async () => {
    // From the end: two matches among 900 others, then a dense part, all of which a wide slice would read.
    const stream = await streamOf(`${"a".repeat(700)}${"b".repeat(900)}a${"b".repeat(40)}a`);
    const all = [1_642, 1_601, ...Array.from({ length: 700 }, (_, i) => 700 - i)];
    expect(await newest(stream, "a", 5)).toEqual(all.slice(0, 5));
    expect(await newest(stream, "a", 200)).toEqual(all.slice(0, 200));
    const pages: number[] = [];
    for (let before: number | undefined; ; before = pages.at(-1)) {
      const page = await newest(stream, "a", 100, before);
      pages.push(...page);
      if (page.length < 100) break;
    }
    expect(pages).toEqual(all);
  });
});
