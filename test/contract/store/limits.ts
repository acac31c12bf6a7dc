import { expect, it } from "vitest";
import { STORE_LIMITS, type Store, type Tx } from "../../../shared/store/store.ts";
import type { Bench } from "./bench.ts";
import { look, once, stored, testSpace, text, write } from "./space.ts";

const refused = (store: Store, body: (tx: Tx) => unknown) =>
  once(store, async (tx) => {
    await body(tx);
  });

export function limitCases(bench: Bench): void {
  sizeCases(bench);
  refusalCases(bench);
}

function sizeCases({ store }: Bench): void {
  it("accepts a key of 1,024 bytes, in every call, and refuses one more byte", async () => {
    const space = testSpace();
    const longest = Buffer.concat([space.prefix, Buffer.alloc(1_024 - space.prefix.length, 0x61)]);
    const tooLong = Buffer.concat([longest, Buffer.of(0x61)]);
    await write(store(), async (tx) => {
      await tx.get(longest);
      tx.set(longest, text("x"));
    });
    const { rows } = await look(store(), (reader) => reader.getRange(space.range(), { limit: 1 }));
    expect(rows[0]?.key).toHaveLength(1_024);
    const after = { begin: Buffer.concat([longest, Buffer.of(0)]), end: space.range().end };
    expect((await look(store(), (reader) => reader.getRange(after, { limit: 1 }))).rows).toEqual([]);
    const tooLarge = { kind: "too_large", details: { actual: 1_025, max: 1_024 } };
    await expect(refused(store(), (tx) => tx.get(tooLong))).rejects.toMatchObject(tooLarge);
    await expect(refused(store(), (tx) => tx.set(tooLong, text("x")))).rejects.toMatchObject(tooLarge);
    await expect(refused(store(), (tx) => tx.clear(tooLong))).rejects.toMatchObject(tooLarge);
  });

  it("accepts a value of 64 KiB and refuses one more byte", async () => {
    const key = testSpace().key("a");
    await write(store(), async (tx) => tx.set(key, Buffer.alloc(65_536, 1)));
    const value = await look(store(), (reader) => reader.get(key));
    expect(value).toHaveLength(65_536);
    await expect(refused(store(), (tx) => tx.set(key, Buffer.alloc(65_537)))).rejects.toMatchObject({
      kind: "too_large",
    });
  });

  it("accepts a transaction of almost 1 MB and refuses a larger one without a trace", async () => {
    const space = testSpace();
    const value = Buffer.alloc(60_000, 1);
    const fillUp = (tx: Tx, count: number) => {
      for (let n = 0; n < count; n++) tx.set(space.key(`v${n}`), value);
    };
    await expect(refused(store(), (tx) => fillUp(tx, 17))).rejects.toMatchObject({ kind: "too_large" });
    expect((await look(store(), (reader) => reader.getRange(space.range(), { limit: 1 }))).rows).toEqual([]);
    await write(store(), async (tx) => fillUp(tx, 16));
    const page = await look(store(), (reader) => reader.getRange(space.range(), { limit: 100 }));
    expect(page.rows).toHaveLength(16);
  });
}

function refusalCases({ store }: Bench): void {
  it("counts the bytes of a transaction in the same way on every engine", async () => {
    const space = testSpace();
    const key = space.key("k");
    const range = space.range("a", "z");
    await once(store(), async (tx) => {
      tx.set(key, text("1234"));
      expect(tx.approximateBytes()).toBe(key.length + 4);
      tx.clear(key);
      await tx.get(key);
      tx.clearRange(range);
      await tx.getRange(range, { limit: 1 });
      tx.addReadConflict(range);
      await tx.snapshot.get(key);
      tx.addI64(key, 1n);
      expect(tx.approximateBytes()).toBe(4 * key.length + 12 + 6 * range.begin.length);
    });
  });

  it("refuses invalid arguments before anything is written", async () => {
    const space = testSpace();
    const key = space.key("a");
    const invalid = { kind: "invalid", committed: "no" };
    const empty = new Uint8Array(0);
    const range = space.range("a", "b");
    const bodies: ((tx: Tx) => unknown)[] = [
      (tx) => tx.get(empty),
      (tx) => tx.set(empty, text("x")),
      (tx) => tx.set(Buffer.of(0xfe, 1), text("x")),
      (tx) => tx.set(Buffer.of(0xff), text("x")),
      (tx) => tx.set("text" as unknown as Uint8Array, text("x")),
      (tx) => tx.clearRange({ begin: range.end, end: range.begin }),
      (tx) => tx.getRange({ begin: empty, end: range.end }, { limit: 1 }),
      (tx) => tx.getRange({ begin: range.begin, end: Buffer.of(0xff) }, { limit: 1 }),
      (tx) => tx.getRange(range, { limit: 0 }),
      (tx) => tx.addI64(key, 2n ** 63n),
      (tx) => tx.setStampedKey(empty, empty, text("x")),
    ];
    for (const body of bodies) {
      const run = refused(store(), (tx) => {
        tx.set(key, text("x"));
        return body(tx);
      });
      await expect(run, body.toString()).rejects.toMatchObject(invalid);
    }
    const rows = STORE_LIMITS.range_rows_max + 1;
    const tooMany = refused(store(), (tx) => tx.getRange(range, { limit: rows }));
    await expect(tooMany).rejects.toMatchObject({ kind: "too_large" });
    expect(await stored(store(), key)).toBeUndefined();
  });
}
