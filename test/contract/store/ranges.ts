import { expect, it } from "vitest";
import { KEY_SPACE } from "../../../shared/store/limits.ts";
import type { KeyRange, Reader } from "../../../shared/store/store.ts";
import type { Bench } from "./bench.ts";
import { fill, listing, look, type Space, testSpace, text, write } from "./space.ts";

const NAMES = ["a", "b", "c", "d", "e"];

export function rangeCases({ store }: Bench): void {
  it("includes begin and excludes end, in both directions", async () => {
    const space = testSpace();
    await fill(store(), space, NAMES);
    await look(store(), async (reader) => {
      const range = space.range("b", "d");
      expect(await listing(reader, space, range)).toEqual(["b=b", "c=c"]);
      expect(await listing(reader, space, range, { reverse: true })).toEqual(["c=c", "b=b"]);
      expect(await listing(reader, space, space.range("b", "b"))).toEqual([]);
      expect(await listing(reader, space, space.range("bb", "c"))).toEqual([]);
    });
  });

  it.each([1, 2, 5, 6])("returns every row once, in pages of %i", async (limit) => {
    const space = testSpace();
    await fill(store(), space, NAMES);
    const forward = await look(store(), (reader) => pages(reader, space, limit, false));
    const backward = await look(store(), (reader) => pages(reader, space, limit, true));
    expect(forward).toEqual(NAMES);
    expect(backward).toEqual(NAMES.toReversed());
  });

  it("has `more` while rows are left, and not after a page that is not full", async () => {
    const space = testSpace();
    await fill(store(), space, NAMES);
    await look(store(), async (reader) => {
      expect((await reader.getRange(space.range(), { limit: 4 })).more).toBe(true);
      expect((await reader.getRange(space.range(), { limit: 6 })).more).toBe(false);
    });
  });

  it("orders keys by their bytes", async () => {
    const space = testSpace();
    const tails = [[0x00], [0x00, 0x00], [0x00, 0xff], [0x01], [0x7f], [0x80], [0xff]];
    await write(store(), async (tx) => {
      for (const tail of tails.toReversed()) tx.set(keyOf(space, tail), text("x"));
    });
    const end = Buffer.concat([space.prefix, Buffer.of(0xff, 0xff)]);
    const page = await look(store(), (reader) =>
      reader.getRange({ begin: space.prefix, end }, { limit: 10 }),
    );
    expect(page.rows.map(({ key }) => [...key.subarray(space.prefix.length)])).toEqual(tails);
  });

  it("keeps empty and binary values, and those of the sizes where engines change their layout", async () => {
    const space = testSpace();
    for (const size of [0, 1, 2_000, 2_100, 4_096, 4_097, 40_000]) {
      const value = Buffer.alloc(size, size % 251);
      const key = space.key(String(size));
      await write(store(), async (tx) => tx.set(key, value));
      const [got, page] = await look(store(), async (reader) => [
        await reader.get(key),
        await reader.getRange({ begin: key, end: Buffer.concat([key, Buffer.of(0)]) }, { limit: 2 }),
      ]);
      expect(Buffer.from(got!).equals(value)).toBe(true);
      expect(Buffer.from(page.rows[0]!.value).equals(value)).toBe(true);
    }
  });

  it("reads a range over the whole key space", async () => {
    const space = testSpace();
    await fill(store(), space, ["a"]);
    const page = await look(store(), (reader) => reader.getRange(KEY_SPACE, { limit: 1 }));
    expect(page.rows).toHaveLength(1);
  });
}

const keyOf = (space: Space, tail: number[]) => Buffer.concat([space.prefix, Buffer.from(tail)]);

async function pages(reader: Reader, space: Space, limit: number, reverse: boolean): Promise<string[]> {
  const names: string[] = [];
  let rest: KeyRange = space.range();
  for (;;) {
    const { rows, more } = await reader.getRange(rest, { limit, reverse });
    names.push(...rows.map(({ key }) => space.name(key)));
    const last = rows.at(-1);
    if (!more || last === undefined) return names;
    rest = reverse
      ? { begin: rest.begin, end: last.key }
      : { begin: Buffer.concat([last.key, Buffer.of(0)]), end: rest.end };
  }
}
