// The sweep of retention: ended at each of its transactions, by two instances at once, beside writers, over a long task and
// over a store of an earlier version.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { readRetentionState, stepRetention } from "../../../../shared/records/retention/sweep.ts";
import { type Store, StoreError } from "../../../../shared/store/store.ts";
import { create, ENGINES } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";
import { StoreCopy } from "../layout-1/fixture.ts";

const DAY_MS = 86_400_000;
const reading = { label: "test", deadlineMs: 5_000 } as const;

describe.each(ENGINES)("the sweep on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  async function written(count: number): Promise<string> {
    const task = place.fresh();
    for (let n = 0; n < count; n += 1) await create(place.repository, { task });
    return task;
  }

  const page = (task: string) =>
    place.repository.history("default", { task_id: task, limit: 1_000, order: "oldest" });
  const removals = async (task: string) =>
    (await place.trail(task)).filter(({ op }) => op === "remove").map(({ checkpoint_id }) => checkpoint_id);
  const sound = async () => expect((await scrub(place)).findings).toEqual([]);

  /** A store whose transaction with this label fails, before or after its commit. */
  function ending(label: string, when: "before" | "after"): Store {
    return wrappedStore(place.store, async (options, body) => {
      if (options.label !== label) return place.store.transact(options, body);
      if (when === "after") await place.store.transact(options, body);
      throw new StoreError("closed", "the process ends here");
    });
  }

  test.each([
    ["remove_checkpoints", "before"],
    ["remove_checkpoints", "after"],
    ["pass_retention", "before"],
    ["pass_retention", "after"],
  ] as const)("ended at %s, %s the commit, it is repeated without effect", async (label, when) => {
    const tasks = [await written(6), await written(40)];
    place.now += 8 * DAY_MS;
    await expect(place.retain({ store: ending(label, when) })).rejects.toThrow("the process ends here");
    await place.retain();
    for (const task of tasks) {
      const { removed = [], checkpoints } = await page(task);
      expect(checkpoints).toHaveLength(3);
      const removedOnce = await removals(task);
      expect(removedOnce).toEqual(removed.map(({ checkpoint_id }) => checkpoint_id));
      expect(new Set(removedOnce).size).toBe(removedOnce.length);
    }
    await sound();
  });

  test("two instances at once remove each checkpoint once", async () => {
    const tasks = await Promise.all([written(30), written(30), written(30)]);
    place.now += 8 * DAY_MS;
    await Promise.all([place.retain(), place.retain()]);
    await place.retain();
    for (const task of tasks) {
      expect((await page(task)).checkpoints).toHaveLength(3);
      expect(await removals(task)).toHaveLength(27);
    }
    await sound();
  });

  test("US-308 no writer is refused while the sweep runs", async () => {
    const tasks = await Promise.all([written(60), written(60)]);
    place.now += 8 * DAY_MS;
    let isRunning = true;
    const writing = tasks.map(async (task) => {
      let count = 0;
      for (; isRunning; count += 1) await create(place.repository, { task });
      return count;
    });
    await place.retain().finally(() => {
      isRunning = false;
    });
    // Each write was committed.
    const counts = await Promise.all(writing);
    expect(Math.min(...counts)).toBeGreaterThan(0);
    // A task that is written all the time may be left to the next pass.
    await place.retain();
    for (const [i, task] of tasks.entries()) {
      const { checkpoints, removed: gone = [] } = await page(task);
      expect(gone.length).toBeGreaterThanOrEqual(57);
      expect(checkpoints.length + gone.length).toBe(60 + counts[i]!);
      expect((await place.repository.latest("default", task)).checkpoint?.metadata.seq).toBe(60 + counts[i]!);
    }
    await sound();
  });

  test("a long task is swept in small transactions", async () => {
    const task = await written(300);
    const sizes: number[] = [];
    const store = wrappedStore(place.store, (options, body) =>
      place.store.transact(options, async (tx) => {
        const value = await body(tx);
        if (options.label === "remove_checkpoints") sizes.push(tx.approximateBytes());
        return value;
      }),
    );
    expect(await place.retain({ store })).toBe(200);
    expect(sizes.length).toBeGreaterThanOrEqual(200 / 16);
    expect(Math.max(...sizes)).toBeLessThan(100_000);
    expect((await page(task)).checkpoints.at(0)?.metadata.seq).toBe(201);
    const state = await place.store.read(reading, readRetentionState);
    expect(state).toMatchObject({ current: null, last: { skipped: 0 } });
    await sound();
  });

  test("a damaged task does not stop the sweep", async () => {
    const damaged = await written(6);
    const task = await written(6);
    place.now += 8 * DAY_MS;
    const { checkpoints } = await page(damaged);
    await place.repository.quarantine("default", damaged, [
      { checkpoint_id: checkpoints[1]!.metadata.checkpoint_id, version: 1, reason: "hash mismatch" },
    ]);
    await place.retain();
    expect((await page(task)).checkpoints).toHaveLength(3);
    // A recovery would continue from the one before the damage. What descends from the damage waits for an operator.
    expect((await page(damaged)).removed).toEqual([]);
    expect((await page(damaged)).checkpoints).toHaveLength(5);
  });

  test("an agent continues an owned task while old checkpoints go", async () => {
    const task = await place.owned(8);
    place.now += 8 * DAY_MS;
    await place.retain();
    await place.write(task, "agent-1", { completed: 9 });
    await place.fail(task);
    await place.attempt(task);
    await place.takeOver(task, "agent-2");
    await place.write(task, "agent-2", { completed: 10 });
    expect((await place.head(task)).owner).toBe("agent-2");
  });
});

describe("a store of an earlier version", () => {
  test("keeps what its policies promised, then is swept, and verifies", async () => {
    const copy = await StoreCopy.open("memory");
    try {
      const { incarnation } = await openFormat(copy.store);
      const sweep = (nowMs: number) =>
        stepAll({
          ...{ store: copy.store, incarnation, service: "writer", policies: DEFAULT_POLICIES },
          now: () => nowMs,
          guard: async () => {},
        });
      // Earlier versions gave every checkpoint the policy `standard`: 90 days.
      expect(await sweep(copy.now + 30 * DAY_MS)).toBe(0);
      const before = (await scrub(copy, { now: () => copy.now + 31 * DAY_MS })).findings;
      expect(await sweep(copy.now + 120 * DAY_MS)).toBeGreaterThan(0);
      const after = (await scrub(copy, { now: () => copy.now + 121 * DAY_MS })).findings;
      const named = (found: typeof after) =>
        found.map(({ task_id, details }) => `${task_id} ${details}`).sort();
      expect(named(after)).toEqual(named(before));
    } finally {
      await copy.close();
    }
  });
});

async function stepAll(sweep: Parameters<typeof stepRetention>[0]): Promise<number> {
  for (let removed = 0; ; ) {
    const step = await stepRetention(sweep);
    removed += step.removed;
    if (step.ended) return removed;
  }
}
