// Strict serialisability: each case lets another transaction commit between the reads and the commit of the
// first.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { STORE_LIMITS } from "../../../shared/store/store.ts";
import type { Bench } from "./bench.ts";
import { fill, i64, i64Of, look, once, overtaken, stored, testSpace, text, textOf, write } from "./space.ts";

const conflict = { kind: "conflict", committed: "no", retryable: true };

export function isolationCases(bench: Bench): void {
  singleKeyCases(bench);
  phantomCases(bench);
  snapshotCases(bench);
  concurrencyCases(bench);
}

function singleKeyCases({ store }: Bench): void {
  it("refuses a lost update", async () => {
    const space = testSpace();
    const key = space.key("a");
    const run = overtaken(
      store(),
      async (tx) => tx.set(key, text(`${textOf(await tx.get(key))}1`)),
      async (tx) => tx.set(key, text("other")),
    );
    await expect(run).rejects.toMatchObject(conflict);
    expect(await stored(store(), key)).toBe("other");
  });

  it("refuses write skew", async () => {
    const space = testSpace();
    const [a, b] = [space.key("a"), space.key("b")];
    await fill(store(), space, ["a", "b"]);
    const run = overtaken(
      store(),
      async (tx) => {
        await tx.getMany([a, b]);
        tx.clear(a);
      },
      async (tx) => {
        await tx.getMany([a, b]);
        tx.clear(b);
      },
    );
    await expect(run).rejects.toMatchObject(conflict);
    expect(await stored(store(), a)).toBe("a");
  });
}

function phantomCases({ store }: Bench): void {
  it.each(["insert", "delete", "change"])("refuses a phantom %s in a read range", async (kind) => {
    const space = testSpace();
    await fill(store(), space, ["b", "d"]);
    const run = overtaken(
      store(),
      async (tx) => {
        const { rows } = await tx.getRange(space.range(), { limit: 10 });
        tx.set(space.key("count"), text(String(rows.length)));
      },
      async (tx) => {
        if (kind === "insert") tx.set(space.key("c"), text("c"));
        else if (kind === "delete") tx.clear(space.key("d"));
        else tx.set(space.key("d"), text("new"));
      },
    );
    await expect(run).rejects.toMatchObject(conflict);
  });

  it.each([false, true])("refuses a phantom within a limited page (reverse: %s)", async (reverse) => {
    const space = testSpace();
    await fill(store(), space, ["b", "d", "f", "h"]);
    const run = overtaken(
      store(),
      async (tx) => {
        await tx.getRange(space.range(), { limit: 2, reverse });
        tx.set(space.key("z"), text("seen"));
      },
      async (tx) => tx.set(space.key(reverse ? "g" : "c"), text("phantom")),
    );
    await expect(run).rejects.toMatchObject(conflict);
  });

  it.each([false, true])("allows a write beyond a limited page (reverse: %s)", async (reverse) => {
    const space = testSpace();
    await fill(store(), space, ["b", "d", "f", "h"]);
    await overtaken(
      store(),
      async (tx) => {
        await tx.getRange(space.range(), { limit: 2, reverse });
        tx.set(testSpace().key("x"), text("seen"));
      },
      async (tx) => tx.set(space.key(reverse ? "a" : "i"), text("beyond")),
    );
  });
}

function snapshotCases({ store }: Bench): void {
  it("has no conflict from a snapshot read, and one from addReadConflict", async () => {
    const space = testSpace();
    const [key, target] = [space.key("a"), space.key("b")];
    const other = async () => write(store(), async (tx) => tx.addI64(key, 1n));
    await once(store(), async (tx) => {
      await tx.snapshot.get(key);
      await tx.snapshot.getRange(space.range(), { limit: 10 });
      tx.set(target, text("x"));
      await other();
    });
    const guarded = once(store(), async (tx) => {
      await tx.snapshot.get(key);
      tx.addReadConflict(space.range("a", "aa"));
      tx.set(target, text("y"));
      await other();
    });
    await expect(guarded).rejects.toMatchObject(conflict);
    expect(await stored(store(), target)).toBe("x");
  });

  it("guards a range with more rows than one page may have", async () => {
    const space = testSpace();
    const rows = STORE_LIMITS.range_rows_max + 1;
    await write(store(), async (tx) => {
      for (let n = 0; n < rows; n++) tx.set(space.key(`r${n}`), text("x"));
    });
    const guarded = overtaken(
      store(),
      async (tx) => {
        tx.addReadConflict(space.range("r", "s"));
        tx.set(space.key("a"), text("y"));
      },
      async (tx) => tx.clear(space.key("r99")),
    );
    await expect(guarded).rejects.toMatchObject(conflict);
    await once(store(), async (tx) => {
      tx.addReadConflict(space.range("r", "s"));
      tx.set(space.key("a"), text("z"));
    });
    expect(await stored(store(), space.key("a"))).toBe("z");
  });

  it("reads one state, in read and in transact", async () => {
    const space = testSpace();
    const key = space.key("a");
    await write(store(), async (tx) => tx.set(key, text("before")));
    const change = (value: string) => write(store(), async (tx) => tx.set(key, text(value)));
    const seen = await look(store(), async (reader) => {
      const first = textOf(await reader.get(key));
      await change("after");
      const { rows } = await reader.getRange(space.range(), { limit: 10 });
      return [first, textOf(await reader.get(key)), textOf(rows[0]?.value)];
    });
    expect(seen).toEqual(["before", "before", "before"]);
    expect(await stored(store(), key)).toBe("after");
  });
}

function concurrencyCases({ store }: Bench): void {
  it("shows a commit to every transaction that begins after its answer, even when snapshots were taken during it", async () => {
    const key = testSpace().key("n");
    let isOver = false;
    // Each holds its snapshot for a moment, so that there is always one from the middle of a commit.
    const readers = Array.from({ length: 16 }, async (_, n) => {
      while (!isOver) {
        await look(store(), async (reader) => {
          await reader.get(key);
          await sleep(1 + (n % 4));
        });
      }
    });
    const stale: string[] = [];
    for (let n = 1n; n <= 300n; n += 1n) {
      await write(store(), async (tx) => tx.set(key, i64(n)));
      const seen = await look(store(), async (reader) => i64Of(await reader.get(key)));
      if (seen !== n) stale.push(`${seen} instead of ${n}`);
    }
    isOver = true;
    await Promise.all(readers);
    expect(stale).toEqual([]);
  });

  it("retries a conflict until it succeeds, with a new Tx each time", async () => {
    const key = testSpace().key("n");
    const add = () =>
      write(store(), async (tx) => {
        const seen = i64Of(await tx.get(key)) ?? 0n;
        tx.set(key, i64(seen + 1n));
      });
    const results = await Promise.all(Array.from({ length: 20 }, add));
    expect(await look(store(), async (reader) => i64Of(await reader.get(key)))).toBe(20n);
    expect(new Set(results.map(({ stamp }) => Buffer.from(stamp!).toString("hex"))).size).toBe(20);
  });

  it("never conflicts on concurrent addI64 and byteMax", async () => {
    const space = testSpace();
    const [sum, max] = [space.key("sum"), space.key("max")];
    const bump = (n: number) =>
      once(store(), async (tx) => {
        tx.addI64(sum, BigInt(n));
        tx.byteMax(max, Buffer.of(n));
      });
    await Promise.all(Array.from({ length: 20 }, (_, n) => bump(n)));
    const [total, greatest] = await look(store(), (reader) => reader.getMany([sum, max]));
    expect(i64Of(total)).toBe(190n);
    expect([...greatest!]).toEqual([19]);
  });

  it("shows a commit that returned to every transaction that starts afterwards", async () => {
    const key = testSpace().key("a");
    for (let n = 0; n < 30; n++) {
      await write(store(), async (tx) => tx.set(key, text(String(n))));
      expect(await stored(store(), key)).toBe(String(n));
    }
  });
}
