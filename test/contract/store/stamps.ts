// Stamped keys are the store's feed: a reader that follows them must see every commit once, in commit order.

import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { type Bytes, STAMP_BYTES, type Store, type Tx } from "../../../shared/store/store.ts";
import type { Bench } from "./bench.ts";
import { listing, look, once, type Space, stored, testSpace, text, textOf, write } from "./space.ts";

const hex = (bytes: Bytes) => Buffer.from(bytes).toString("hex");

export function stampCases(bench: Bench): void {
  layoutCases(bench);
  readCases(bench);
}

function layoutCases({ store }: Bench): void {
  it("puts stamp and order into the key, and stamps of later commits are greater", async () => {
    const space = testSpace();
    const stamps: string[] = [];
    for (let n = 0; n < 3; n++) {
      const { stamp } = await write(store(), async (tx) => {
        tx.setStampedKey(space.prefix, text("-x"), text(`${n}a`));
        tx.setStampedKey(space.prefix, text("-y"), text(`${n}b`));
      });
      stamps.push(hex(stamp!));
    }
    const { rows } = await look(store(), (reader) => reader.getRange(space.range(), { limit: 10 }));
    const tails = rows.map(({ key }) => hex(key.subarray(space.prefix.length)));
    const [x, y] = [hex(text("-x")), hex(text("-y"))];
    expect(tails).toEqual(stamps.flatMap((stamp) => [`${stamp}0000${x}`, `${stamp}0001${y}`]));
    expect(rows.map(({ value }) => textOf(value))).toEqual(["0a", "0b", "1a", "1b", "2a", "2b"]);
    expect(stamps).toEqual(stamps.toSorted());
  });

  it("puts the stamp into the value", async () => {
    const key = testSpace().key("a");
    const { stamp } = await write(store(), async (tx) => tx.setStampedValue(key, text("<"), text(">")));
    const value = await look(store(), (reader) => reader.get(key));
    expect(Buffer.from(value!)).toEqual(Buffer.concat([text("<"), stamp!, text(">")]));
  });

  it("counts the order from 0 in each attempt", async () => {
    const space = testSpace();
    const feed = Buffer.concat([space.prefix, text("feed/")]);
    const guard = space.key("guard");
    await write(store(), async (tx) => {
      await tx.get(guard);
      tx.setStampedKey(feed, new Uint8Array(0), text("x"));
      if (tx.attempt === 1) await write(store(), async (other) => other.set(guard, text("now")));
    });
    const { rows } = await look(store(), (reader) =>
      reader.getRange(space.range("feed/", "feed0"), { limit: 9 }),
    );
    expect(rows).toHaveLength(1);
    expect(hex(rows[0]!.key.subarray(feed.length + STAMP_BYTES))).toBe("0000");
  });
}

function readCases({ store }: Bench): void {
  it("refuses reads that depend on the stamp", async () => {
    const space = testSpace();
    const key = space.key("value");
    const stampKey = (tx: Tx) => tx.setStampedKey(space.key("feed/"), new Uint8Array(0), text("x"));
    const stampValue = (tx: Tx) => tx.setStampedValue(key, new Uint8Array(0), new Uint8Array(0));
    const reads: [(tx: Tx) => void, (tx: Tx) => Promise<unknown>][] = [
      [stampKey, (tx) => tx.getRange(space.range("feed/", "feed0"), { limit: 10 })],
      [stampKey, (tx) => tx.getRange(space.range(), { limit: 10, reverse: true })],
      [stampKey, (tx) => tx.snapshot.getRange(space.range("feed/", "feed0"), { limit: 10 })],
      [stampValue, (tx) => tx.get(key)],
      [stampValue, (tx) => tx.snapshot.get(key)],
      [stampValue, (tx) => tx.getRange(space.range("v", "w"), { limit: 10 })],
    ];
    for (const [stamp, read] of reads) {
      const run = once(store(), async (tx) => {
        stamp(tx);
        await read(tx);
      });
      await expect(run, read.toString()).rejects.toMatchObject({ kind: "unreadable", committed: "no" });
    }
    expect(await look(store(), (reader) => listing(reader, space, space.range()))).toEqual([]);
  });

  it("allows other reads after a stamped write", async () => {
    const space = testSpace();
    await write(store(), async (tx) => {
      tx.setStampedKey(space.key("feed/"), new Uint8Array(0), text("x"));
      expect(await tx.get(space.key("other"))).toBeUndefined();
      expect((await tx.getRange(space.range("g", "h"), { limit: 10 })).rows).toEqual([]);
    });
    expect(await stored(store(), space.key("other"))).toBeUndefined();
  });

  it("never lets a reader of the tail skip an entry", async () => {
    const space = testSpace();
    const entries = 60;
    const append = async (writer: number) => {
      for (let n = 0; n < entries / 4; n++) {
        await write(store(), async (tx) => {
          tx.setStampedKey(space.prefix, new Uint8Array(0), text(`${writer}/${n}`));
        });
      }
    };
    const [followed] = await Promise.all([follow(store(), space, entries), ...[0, 1, 2, 3].map(append)]);
    const all = await look(store(), (reader) => reader.getRange(space.range(), { limit: 1_000 }));
    expect(followed).toEqual(all.rows.map(({ value }) => textOf(value)));
    expect(new Set(followed).size).toBe(entries);
  });
}

/** Reads from the last seen key on, until it has seen `count` entries. */
async function follow(store: Store, space: Space, count: number): Promise<(string | undefined)[]> {
  const seen: (string | undefined)[] = [];
  let { begin, end } = space.range();
  while (seen.length < count) {
    const { rows } = await look(store, (reader) => reader.getRange({ begin, end }, { limit: 7 }));
    seen.push(...rows.map(({ value }) => textOf(value)));
    const last = rows.at(-1);
    if (last !== undefined) begin = Buffer.concat([last.key, Buffer.of(0)]);
    // An embedded store answers reads without a wait, so the writers need a turn of the event loop.
    await turn();
  }
  return seen;
}
