// A transaction sees its own writes, and its commit has the result of its calls in their order.

import { expect, it } from "vitest";
import type { Bench } from "./bench.ts";
import { fill, i64, i64Of, listing, look, stored, testSpace, text, textOf, write } from "./space.ts";

export function ownWriteCases(bench: Bench): void {
  mergeCases(bench);
  valueCases(bench);
}

function mergeCases({ store }: Bench): void {
  it("sees its own set, clear and clearRange, in get, getMany and snapshot", async () => {
    const space = testSpace();
    const [a, b, c] = [space.key("a"), space.key("b"), space.key("c")];
    await fill(store(), space, ["a", "b", "c"]);
    await write(store(), async (tx) => {
      tx.set(a, text("new"));
      tx.clear(b);
      tx.clearRange(space.range("c", "d"));
      expect((await tx.getMany([a, b, c])).map(textOf)).toEqual(["new", undefined, undefined]);
      expect(textOf(await tx.snapshot.get(a))).toBe("new");
      tx.set(c, text("again"));
      expect(textOf(await tx.get(c))).toBe("again");
    });
    expect(await look(store(), (reader) => listing(reader, space, space.range()))).toEqual([
      "a=new",
      "c=again",
    ]);
  });

  it.each([false, true])("merges its own writes into ranges (reverse: %s)", async (reverse) => {
    const space = testSpace();
    await fill(store(), space, ["b", "d", "f", "h", "j"]);
    const seen = await write(store(), async (tx) => {
      for (const name of ["a", "c", "k"]) tx.set(space.key(name), text("own"));
      tx.set(space.key("d"), text("changed"));
      tx.clearRange(space.range("f", "i"));
      const all = await listing(tx, space, space.range(), { reverse });
      const page = await listing(tx, space, space.range(), { limit: 3, reverse });
      expect(page).toEqual(all.slice(0, 3));
      expect(await listing(tx.snapshot, space, space.range(), { reverse })).toEqual(all);
      return all;
    });
    const expected = ["a=own", "b=b", "c=own", "d=changed", "j=j", "k=own"];
    expect(seen.value).toEqual(reverse ? expected.toReversed() : expected);
    expect(await look(store(), (reader) => listing(reader, space, space.range()))).toEqual(expected);
  });

  it("finds the rows after a long cleared part", async () => {
    const space = testSpace();
    const names = Array.from({ length: 200 }, (_, n) => String(n).padStart(3, "0"));
    await fill(store(), space, names);
    const { value } = await write(store(), async (tx) => {
      tx.clearRange(space.range("000", "150"));
      return await listing(tx, space, space.range(), { limit: 2 });
    });
    expect(value).toEqual(["150=150", "151=151"]);
  });
}

function valueCases({ store }: Bench): void {
  it("applies atomics to stored, own and absent values", async () => {
    const space = testSpace();
    const [n, m] = [space.key("n"), space.key("m")];
    await write(store(), async (tx) => tx.set(n, i64(40n)));
    await write(store(), async (tx) => {
      tx.addI64(n, 1n);
      tx.addI64(n, 1n);
      expect(i64Of(await tx.get(n))).toBe(42n);
      tx.addI64(n, -2n);
      tx.byteMax(m, text("b"));
      tx.byteMax(m, text("a"));
      expect(await listing(tx, space, space.range("m", "n"))).toEqual(["m=b"]);
    });
    await write(store(), async (tx) => {
      tx.clear(n);
      tx.addI64(n, 7n);
      tx.byteMax(m, text("c"));
    });
    const [sum, max] = await look(store(), (reader) => reader.getMany([n, m]));
    expect([i64Of(sum), textOf(max)]).toEqual([7n, "c"]);
  });

  it("wraps at the ends of the 64-bit range", async () => {
    const key = testSpace().key("n");
    await write(store(), async (tx) => tx.addI64(key, 2n ** 63n - 1n));
    await write(store(), async (tx) => tx.addI64(key, 1n));
    expect(await look(store(), async (reader) => i64Of(await reader.get(key)))).toBe(-(2n ** 63n));
  });

  it("returns arrays that belong to the caller", async () => {
    const space = testSpace();
    const key = Buffer.from(space.key("a"));
    const value = Buffer.from("value");
    await write(store(), async (tx) => {
      tx.set(key, value);
      (await tx.get(key))?.fill(0);
      const { rows } = await tx.getRange(space.range(), { limit: 1 });
      rows[0]?.value.fill(0);
    });
    await look(store(), async (reader) => (await reader.get(key))?.fill(0));
    expect(await stored(store(), key)).toBe("value");
  });

  it("has a stamp if and only if something was written", async () => {
    const key = testSpace().key("a");
    const nothing = await write(store(), async (tx) => tx.get(key));
    const something = await write(store(), async (tx) => tx.set(key, text("x")));
    expect(nothing).toMatchObject({ stamp: null, attempts: 1 });
    expect(something.stamp).toHaveLength(10);
  });
}
