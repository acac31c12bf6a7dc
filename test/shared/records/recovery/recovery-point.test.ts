// The recovery point: the newest sound checkpoint, or none, and then an operator decides.

import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { writeOrder } from "../../../../shared/records/checkpoint/order.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { create, ENGINES, input, send } from "../../../harness/records/records.ts";
import { advanceRecovery } from "../../../harness/records/recoveries.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { flip } from "../search/corpus.ts";

const keys = tenantKeys("default");
const writing = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

describe.each(ENGINES)("the recovery point on %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  /** A task with a chain of `count` checkpoints. */
  async function line(length: number): Promise<{ task: string; ids: string[] }> {
    const task = await place.owned(length);
    const query = { task_id: task, order: "oldest", limit: 100 } as const;
    const { checkpoints } = await place.repository.history("default", query);
    return { task, ids: checkpoints.map(({ metadata }) => metadata.checkpoint_id) };
  }
  const find = (task: string, options = {}) =>
    place.repository.recoveryActions.findPoint({ tenant: "default", task }, options);
  const damage = (task: string, id: string | undefined) => flip(place.store, task, id as string);
  const idOf = (search: Awaited<ReturnType<typeof find>>) =>
    search.found ? search.checkpoint.metadata.checkpoint_id : search.reason;

  test("is the newest checkpoint if all are sound", async () => {
    const { task, ids } = await line(5);
    const search = await find(task);
    expect(idOf(search)).toBe(ids[4]);
    expect(search.passed_over).toEqual([]);
  });

  test("corrupt newer checkpoints are passed over, named, quarantined and announced once", async () => {
    const { task, ids } = await line(5);
    await damage(task, ids[4]);
    await damage(task, ids[3]);
    const search = await find(task);
    expect(idOf(search)).toBe(ids[2]);
    expect(search.passed_over.map(({ checkpoint_id }) => checkpoint_id)).toEqual([ids[4], ids[3]]);
    expect(idOf(await find(task))).toBe(ids[2]);
    const corrupted = (await place.outbox(task)).filter(({ event }) => event.type === "CHECKPOINT_CORRUPTED");
    expect(corrupted.map(({ event }) => event.data)).toMatchObject([
      { checkpointId: ids[4] },
      { checkpointId: ids[3] },
    ]);
    expect((await place.trail(task)).filter(({ op }) => op === "quarantine")).toHaveLength(2);
  });

  test("a corrupt ancestor of the newest checkpoint ends the search", async () => {
    const { task, ids } = await line(5);
    await damage(task, ids[1]);
    expect(await find(task)).toMatchObject({
      found: false,
      reason: "chain_broken",
      details: expect.stringContaining(`checkpoint ${ids[1]} does not verify`),
      passed_over: [{ checkpoint_id: ids[1] }],
    });
    await place.fail(task);
    await advanceRecovery(place.repository, task);
    expect(await place.head(task)).toMatchObject({
      state: "blocked",
      recovery: { state: "blocked", attempts: 0 },
      blocked: { reason: "chain_broken" },
    });
    expect((await place.outbox(task)).at(-1)?.event).toMatchObject({
      type: "TASK_BLOCKED",
      data: { reason: "chain_broken" },
    });
  });

  test("without a reachable sound checkpoint the chain is broken", async () => {
    const { task, ids } = await line(3);
    for (const id of ids) await damage(task, id);
    expect(await find(task)).toMatchObject({ found: false, reason: "chain_broken" });
  });

  test("a task without checkpoints has none", async () => {
    const task = place.fresh();
    await send(place.repository, "take", {}, { task });
    expect(await find(task)).toMatchObject({ found: false, reason: "no_checkpoint", passed_over: [] });
    expect(await find("nowhere")).toMatchObject({ found: false, reason: "no_checkpoint" });
    await place.fail(task);
    await advanceRecovery(place.repository, task);
    expect(await place.recovery(task)).toMatchObject({ blocked: { reason: "no_checkpoint" } });
  });

  test("before a checkpoint: the newest sound one that is older", async () => {
    const { task, ids } = await line(5);
    expect(idOf(await find(task, { before: ids[4] }))).toBe(ids[3]);
    expect(idOf(await find(task, { before: ids[2] }))).toBe(ids[1]);
    await damage(task, ids[1]);
    expect(idOf(await find(task, { before: ids[2] }))).toBe(ids[0]);
  });

  test("before the first checkpoint: the newest sound one", async () => {
    const { task, ids } = await line(3);
    expect(idOf(await find(task, { before: ids[0] }))).toBe(ids[2]);
    await damage(task, ids[2]);
    const search = await find(task, { before: ids[0] });
    expect(idOf(search)).toBe(ids[1]);
    expect(search.passed_over).toMatchObject([{ checkpoint_id: ids[2] }]);
    for (const id of ids.slice(0, 2)) await damage(task, id);
    expect(await find(task, { before: ids[0] })).toMatchObject({ found: false, reason: "chain_broken" });
  });

  test("if the first attempt started from the first checkpoint, the newest one gets as many attempts", async () => {
    const task = await place.spent(1);
    expect(await place.recovery(task)).toMatchObject({
      attempts: 5,
      rung: "previous",
      blocked: { reason: "attempts_spent" },
    });
    const { checkpoints } = await place.repository.history("default", {
      ...{ task_id: task, order: "oldest", limit: 50 },
    });
    const attempts = (await place.trail(task)).filter(({ op }) => op === "recover");
    // Each starts from the previous agent's checkpoint, since none is older than the first.
    expect(attempts.map(({ rung, from_checkpoint }) => [rung, from_checkpoint])).toEqual(
      ["latest", "latest", "latest", "previous", "previous"].map((rung, n) => [
        rung,
        checkpoints[n]?.metadata.checkpoint_id,
      ]),
    );
  });

  test("a corrupt first checkpoint is never tried again", async () => {
    const task = await place.owned(1);
    const { latest_id } = await place.head(task);
    await place.fail(task);
    await place.attempt(task);
    const { handoff_id: id } = await place.head(task);
    await damage(task, latest_id as string);
    await place.repository.handoffActions.rejectHandoff("default", id as string, { reason: "hash_broken" });
    await place.fail(task, { signal: "handoff_rejected", class: "corrupt_state", agent_id: null });
    await place.attempt(task);
    expect(await place.recovery(task)).toMatchObject({ attempts: 1, blocked: { reason: "chain_broken" } });
  });

  test("a chosen checkpoint is the only candidate, on any rung", async () => {
    const { task, ids } = await line(4);
    expect(idOf(await find(task, { checkpointId: ids[1] }))).toBe(ids[1]);
    expect(idOf(await find(task, { checkpointId: ids[3], before: ids[1] }))).toBe(ids[3]);
    await damage(task, ids[2]);
    expect(await find(task, { checkpointId: ids[2] })).toMatchObject({
      found: false,
      reason: "chain_broken",
      passed_over: [{ checkpoint_id: ids[2] }],
    });
  });

  test("a checkpoint of another task leaves no mark on the task", async () => {
    const { task } = await line(2);
    const { ids: foreign } = await line(1);
    const before = await place.head(task);
    for (const id of [uuidv7(), foreign[0]]) {
      for (const options of [{ checkpointId: id }, { before: id }]) {
        expect(await find(task, options)).toMatchObject({
          found: false,
          reason: "no_checkpoint",
          details: `the task has no checkpoint ${id}`,
        });
      }
    }
    expect(await place.head(task)).toEqual(before);
  });

  test("the search follows the last successful state of each checkpoint", async () => {
    const { task, ids } = await line(4);
    const checkpoint = input();
    checkpoint.recovery = { last_successful_state: ids[1] as string };
    checkpoint.metadata.parent_ids = [ids[3] as string];
    const { checkpoint_id: newest } = await create(place.repository, { task, fence: 1, checkpoint });
    await damage(task, newest);
    expect(idOf(await find(task))).toBe(ids[1]);
  });

  test("a ring of last successful states ends the search", async () => {
    const { task, ids } = await line(2);
    const [first, second] = ids as [string, string];
    // No command makes a ring. Earlier versions of the writer did.
    const { compliance, metadata } = await place.repository.get("default", first);
    await place.store.transact(writing, async (tx) => {
      const entry = {
        id: first,
        fallback: second,
        version: metadata.version,
        hash: compliance.hash,
        retention: "working",
      };
      writeOrder(tx, keys, task, metadata.seq, entry);
    });
    await damage(task, first);
    await damage(task, second);
    expect(await find(task)).toMatchObject({ found: false, reason: "chain_broken" });
  });

  test.each(["id", "order"] as const)(
    "does not exist if the %s entry of the newest checkpoint is lost",
    async (entry) => {
      const { task, ids } = await line(3);
      const lost = ids[2] as string;
      const { seq } = (await place.repository.get("default", lost)).metadata;
      await place.store.transact(writing, async (tx) => {
        tx.clear(entry === "id" ? keys.id(lost) : keys.order(task, seq));
      });
      // The lost entry also held the last successful state.
      expect(await find(task)).toMatchObject({
        found: false,
        reason: "chain_broken",
        passed_over: [{ checkpoint_id: lost }],
      });
      expect(await find(task, { before: ids[1] })).toMatchObject({ found: false });
    },
  );
});
