/** Views of streams: their size, their messages from either end, single ones, and removals. */
import { expect } from "vitest";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type BusBench, type ContractCases, textIn } from "./bench.ts";

let counter = 0;

/** Creates a stream with one message for each letter, under that letter's subject. */
async function streamOf({ bus }: BusBench, letters: string): Promise<string> {
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
    await bus.publishOrdered(messages.slice(at, at + 500), { timeoutMs: 60_000 });
  }
  return name;
}

const newest = async ({ bus }: BusBench, stream: string, letter: string, limit: number, before?: number) => {
  const filter = `view.${stream.slice("VIEW_".length)}.${letter}`;
  const found = await bus.stream(stream).newest({ filter, limit, before });
  for (const { seq, body, subject } of found) {
    expect(Buffer.from(body).toString()).toBe(String(seq));
    if (letter !== "*") expect(subject).toBe(filter);
  }
  return found.map(({ seq }) => seq);
};

export const viewCases: ContractCases = {
  "the newest messages are read from the end, or before a position, up to the limit": async (bench) => {
    const stream = await streamOf(bench, "aababbab");
    expect(await newest(bench, stream, "*", 3)).toEqual([8, 7, 6]);
    expect(await newest(bench, stream, "a", 2)).toEqual([7, 4]);
    expect(await newest(bench, stream, "a", 2, 4)).toEqual([2, 1]);
    expect(await newest(bench, stream, "a", 9)).toEqual([7, 4, 2, 1]);
    expect(await newest(bench, stream, "a", 9, 1)).toEqual([]);
    expect(await newest(bench, stream, "c", 9)).toEqual([]);
    expect(await newest(bench, stream, "*", 2, 1_000)).toEqual([8, 7]);
  },

  "there are no newest messages in an empty stream": async (bench) => {
    expect(await newest(bench, await streamOf(bench, ""), "*", 5)).toEqual([]);
  },

  "the newest messages are found far behind others, and in a dense part before a sparse one": async (
    bench,
  ) => {
    // From the end: two matches among 900 others, then a dense part, all of which a wide slice would read.
    const stream = await streamOf(bench, `${"a".repeat(700)}${"b".repeat(900)}a${"b".repeat(40)}a`);
    const all = [1_642, 1_601, ...Array.from({ length: 700 }, (_, i) => 700 - i)];
    expect(await newest(bench, stream, "a", 5)).toEqual(all.slice(0, 5));
    expect(await newest(bench, stream, "a", 200)).toEqual(all.slice(0, 200));
    const pages: number[] = [];
    for (let before: number | undefined; ; before = pages.at(-1)) {
      const page = await newest(bench, stream, "a", 100, before);
      pages.push(...page);
      if (page.length < 100) break;
    }
    expect(pages).toEqual(all);
  },

  "a view shows the size of a stream, and its messages from the oldest on, with or without bodies": async (
    bench,
  ) => {
    const name = await streamOf(bench, "abab");
    const { bus } = bench;
    const stream = bus.stream(name);
    const subject = (letter: string) => `view.${name.slice("VIEW_".length)}.${letter}`;
    const { oldestAt, bytes, ...state } = await stream.state();
    expect(state).toEqual({ messages: 4, bytesMax: 8 * 1024 * 1024, lastSeq: 4 });
    expect(Math.abs(Date.now() - oldestAt!)).toBeLessThan(10 * 60_000);
    expect(bytes).toBeGreaterThan(0);
    const heads = await stream.list(2, 2);
    expect(heads.map(({ seq, subject }) => [seq, subject])).toEqual([
      [2, subject("b")],
      [3, subject("a")],
    ]);
    expect(heads[0]!.headers.get("Nats-Msg-Id")).toBe(`${name}/1`);
    expect((await stream.read(1, 10)).map(textIn)).toEqual(["1", "2", "3", "4"]);
    expect((await stream.read(1, 10, subject("b"))).map(textIn)).toEqual(["2", "4"]);
    expect((await stream.read(3, 1, subject("b"))).map(textIn)).toEqual(["4"]);
    expect(await stream.read(5, 10)).toEqual([]);
    expect(textIn((await stream.get(3))!)).toBe("3");
    expect(await stream.get(9)).toBeNull();
    expect(await stream.count(subject("a"))).toBe(2);
    expect(await stream.count(subject("*"))).toBe(4);
    expect(await stream.count(subject("c"))).toBe(0);
    expect(await bus.stream(await streamOf(bench, "")).state()).toMatchObject({
      messages: 0,
      oldestAt: null,
    });
  },

  "a message is removed once, and the positions of the others stay": async (bench) => {
    const stream = bench.bus.stream(await streamOf(bench, "aaa"));
    expect([await stream.remove(2), await stream.remove(2)]).toEqual([true, false]);
    expect(await stream.get(2)).toBeNull();
    expect((await stream.read(1, 10)).map(({ seq }) => seq)).toEqual([1, 3]);
    expect(await stream.remove(1)).toBe(true);
    expect(await stream.remove(3)).toBe(true);
    expect(await stream.state()).toMatchObject({ messages: 0, lastSeq: 3, oldestAt: null });
  },

  "all messages under a subject are erased, up to the last one at the start, or until it may not continue":
    async (bench) => {
      const name = await streamOf(bench, "abaabbaa");
      const stream = bench.bus.stream(name);
      const filter = `view.${name.slice("VIEW_".length)}.a`;
      let asked = 0;
      expect(await stream.erase(filter, async () => ++asked < 3)).toBe("some");
      expect(await stream.count(filter)).toBe(3);
      let stored = 0;
      const storeMore = async () => {
        await bench.bus.publishDurable(
          filter,
          { body: Buffer.from("x") },
          { messageId: `more ${++stored}`, timeoutMs: 60_000 },
        );
        return true;
      };
      expect(await stream.erase(filter, storeMore)).toBe("all");
      expect([stored, await stream.count(filter)]).toEqual([3, 3]);
      expect(await stream.erase(filter, async () => true)).toBe("all");
      expect((await stream.read(1, 20)).map(({ seq }) => seq)).toEqual([2, 5, 6]);
    },

  "a stream that denies removals keeps its messages": async (bench) => {
    await bench.bus.reconcileStreams([fleetStreams({ storageBytes: 512 * 1024 * 1024 })[0]!]);
    const subject = SUBJECTS.event("default", "CHECKPOINT_CREATED", "kept");
    const { seq } = await bench.bus.publishDurable(
      subject,
      { body: Buffer.from("x") },
      { messageId: "kept", timeoutMs: 60_000 },
    );
    const events = bench.bus.stream(STREAMS.events);
    expect(await events.erase(subject, async () => true)).toBe("denied");
    await expect(events.remove(seq)).rejects.toMatchObject({ name: "BusError" });
    expect(await events.count(subject)).toBe(1);
  },
};
