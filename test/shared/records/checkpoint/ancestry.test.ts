// The verification of a checkpoint and its ancestors: sound chains, branches, and damage at every position.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import {
  create,
  ENGINES,
  input,
  openTestRecords,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { flip } from "../search/corpus.ts";

const TASK = "task-1";
const keys = tenantKeys("default");
const writing = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

describe.each(ENGINES)("the chain of a checkpoint on %s", (engine) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  const verify = async (id: string) => {
    const { handoffActions } = bench.repository;
    const own = await handoffActions.verifyOwn("default", TASK, id);
    return own.ok ? handoffActions.verifyAncestors("default", TASK, own) : own;
  };

  const sound = (id: string | undefined, verified: number) => ({
    ok: true,
    checkpoint: { metadata: { checkpoint_id: id } },
    verified,
  });

  /** Creates checkpoints with the given parents, each by its position in the list. */
  async function chain(parents: readonly (readonly number[])[]): Promise<string[]> {
    const ids: string[] = [];
    for (const places of parents) {
      const checkpoint = input();
      checkpoint.metadata.parent_ids = places.map((place) => ids[place] as string);
      ids.push((await create(bench.repository, { task: TASK, checkpoint })).checkpoint_id);
    }
    return ids;
  }
  const line = (length: number) => chain(Array.from({ length }, (_, i) => (i === 0 ? [] : [i - 1])));

  test.each([1, 2, 33, 70])("of length %i is verified back to the first checkpoint", async (length) => {
    const ids = await line(length);
    expect(await verify(ids.at(-1) as string)).toMatchObject(sound(ids.at(-1), length));
    expect(await verify(ids[0] as string)).toMatchObject(sound(ids[0], 1));
  });

  test("of large checkpoints is verified back to the first one too", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 7; n += 1) {
      const checkpoint = input();
      if (n % 3 !== 0) checkpoint.execution_state.goal = "x".repeat(800_000);
      ids.push((await create(bench.repository, { task: TASK, checkpoint })).checkpoint_id);
    }
    expect(await verify(ids.at(-1) as string)).toMatchObject(sound(ids.at(-1), 7));
    await flip(bench.store, TASK, ids[0] as string);
    expect(await verify(ids.at(-1) as string)).toMatchObject({ ok: false, at: ids[0] });
  });

  test("does not contain other branches; a merge contains both of its branches", async () => {
    const [, , two, three, four] = await chain([[], [0], [0], [1], [3, 2]]);
    expect(await verify(four as string)).toMatchObject(sound(four, 5));
    await flip(bench.store, TASK, two as string);
    expect(await verify(three as string)).toMatchObject(sound(three, 3));
    expect(await verify(four as string)).toMatchObject({ ok: false, reason: "chain_broken", at: two });
  });

  test("a corrupt checkpoint is hash_broken, a corrupt ancestor chain_broken with its id; both are quarantined", async () => {
    const ids = await line(40);
    const [first, last] = [ids[0] as string, ids.at(-1) as string];
    await flip(bench.store, TASK, first);
    expect(await verify(last)).toMatchObject({ ok: false, reason: "chain_broken", at: first });
    await flip(bench.store, TASK, last);
    expect(await verify(last)).toMatchObject({ ok: false, reason: "hash_broken", at: last });
    expect(bench.corrupt.map(({ checkpoint_id }) => checkpoint_id)).toEqual([first, last]);
    expect(await verify(last)).toMatchObject({ ok: false, details: expect.any(String) });
    expect(bench.corrupt).toHaveLength(2);
  });

  test("an ancestor whose entry in the order is lost breaks the chain", async () => {
    const ids = await line(5);
    await bench.store.transact(writing, async (tx) => tx.clear(keys.order(TASK, 2)));
    expect(await verify(ids[4] as string)).toMatchObject({ ok: false, reason: "chain_broken", at: ids[1] });
  });

  test("a checkpoint of another task is not a sound checkpoint of this one", async () => {
    const other = await create(bench.repository, { task: "other" });
    await line(1);
    expect(await verify(other.checkpoint_id)).toMatchObject({ ok: false, reason: "hash_broken" });
  });

  test("is not verified beyond the limit", async () => {
    const length = LIMITS.chain_count_max + 40;
    const ids = await line(length);
    await flip(bench.store, TASK, ids[0] as string);
    const found = await verify(ids.at(-1) as string);
    expect(found).toMatchObject({ ok: true });
    expect((found as { verified: number }).verified).toBeGreaterThanOrEqual(LIMITS.chain_count_max);
  }, 60_000);
});
