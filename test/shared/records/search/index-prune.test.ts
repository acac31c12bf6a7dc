// The words of removed checkpoints leave the index, batch by batch and through crashes, and nothing else leaves it.

import tuple from "fdb-tuple";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { stepPrune } from "../../../../shared/records/search/index-prune.ts";
import { readPostings } from "../../../../shared/records/search/postings.ts";
import type { Tx } from "../../../../shared/store/store.ts";
import { create, ENGINES, input, OPERATOR } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { indexAll } from "./corpus.ts";

const DAY_MS = 86_400_000;
const reading = { label: "test", deadlineMs: 5_000 };
const CHECKPOINTS = 30;

class Crash extends Error {}

describe.each(ENGINES)("words of removed checkpoints on %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  /** Every posting, and every checkpoint that a step names. */
  const words = () =>
    place.store.read(reading, async (reader) => {
      const keys = tenantKeys("default");
      const { rows, more } = await reader.getRange(keys.words(), { limit: 5_000 });
      expect(more).toBe(false);
      const names = new Set(rows.map(({ key }) => tuple.unpack(Buffer.from(key)).at(-2) as string));
      const all: string[] = [];
      for (const word of names) {
        const { postings } = await readPostings(reader, keys, word, { before: null, lists: 1_000 });
        all.push(...postings.map(({ id }) => `${word} ${id}`));
      }
      return { names: [...names].sort(), postings: all.sort(), lists: rows.length };
    });
  const prune = (guard: (tx: Tx) => Promise<void> = async () => {}, everyMs = 0) =>
    stepPrune(place.store, { guard, nowMs: place.now, everyMs });
  async function pruneAll(guard?: (tx: Tx) => Promise<void>): Promise<number> {
    for (let batches = 0, crashes = 0; ; batches += 1) {
      try {
        if ((await prune(guard)) === null) return batches;
      } catch (error) {
        if (!(error instanceof Crash)) throw error;
        crashes += 1;
        expect(crashes).toBeLessThan(1_000);
      }
    }
  }

  async function written(task: string, count = CHECKPOINTS): Promise<void> {
    for (let n = 0; n < count; n += 1) {
      const goal = `shared only${task.replaceAll("-", "")}x${n} ${n % 2 === 0 ? "even" : "odd"}`;
      await create(place.repository, { task, checkpoint: input({ goal }) });
      // Steps of different sizes.
      if (n % 7 === 0) await indexAll(place.store);
    }
    await indexAll(place.store);
  }

  test("nothing is done before a removal", async () => {
    await written(place.fresh());
    expect(await prune()).toBeNull();
  });

  test("after a pass with crashes, the index is the one that a rebuild makes", async () => {
    const task = place.fresh();
    await written(task);
    const before = await words();
    place.now += 8 * DAY_MS;
    expect(await place.retain()).toBe(CHECKPOINTS - 3);
    // The index has not followed the removals yet.
    expect(await prune()).toBeNull();
    await indexAll(place.store);
    expect((await words()).postings).toEqual(before.postings);
    let calls = 0;
    const batches = await pruneAll(async () => {
      calls += 1;
      if (calls % 2 === 1) throw new Crash();
    });
    expect(batches).toBeGreaterThan(1);
    const pruned = await words();
    expect(pruned.names.filter((word) => word.startsWith("only"))).toHaveLength(3);
    expect(await prune()).toBeNull();
    await place.repository.rebuildIndex(OPERATOR);
    await indexAll(place.store);
    const rebuilt = await words();
    expect(pruned.names).toEqual(rebuilt.names);
    expect(pruned.postings).toEqual(rebuilt.postings);
  });

  test("a removal during a pass leads to another pass, not before its time, and new words stay", async () => {
    const [first, second] = [place.fresh(), place.fresh()];
    await written(first);
    place.now += 8 * DAY_MS;
    await place.retain();
    await indexAll(place.store);
    expect(await prune()).toMatchObject({ hasEnded: false });
    await written(second);
    place.now += 8 * DAY_MS;
    await place.retain();
    await indexAll(place.store);
    while ((await prune(undefined, DAY_MS)) !== null);
    expect(await prune(undefined, DAY_MS)).toBeNull();
    place.now += DAY_MS;
    await pruneAll();
    const { names, postings } = await words();
    expect(names.filter((word) => word.startsWith("only"))).toHaveLength(6);
    expect(postings.filter((posting) => posting.startsWith("shared "))).toHaveLength(6);
  });
});
