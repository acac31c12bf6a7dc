/** The removal of the last checkpoint of a task destroys the key of the task: what a copy of its rows has cannot be read with the keys of the store. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { sealedWith } from "../../../../shared/records/encryption/sealed-value.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { CheckpointRepository } from "../../../../shared/records/repository.ts";
import type { Bytes, KeyValue, Store } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { completeSortie, MISSION, startMission } from "../../../harness/records/missions.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  OPERATOR,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const DAY_MS = 86_400_000;
const LOOK = { label: "test", deadlineMs: 20_000 } as const;
const WRITE = { ...LOOK, onUnknown: "safe" } as const;
const root = rootKey();
const keys = tenantKeys("default");

describe.each(ENGINES)("on %s", (engine) => {
  /** Without encryption. */
  let raw: Store;
  let records: TestRecords;
  let place: TestTasks;

  beforeEach(async () => {
    records = await openTestRecords(engine);
    raw = records.store;
    const { store } = await openEncryption(raw, [root]);
    let tasks: TestTasks | undefined;
    const repository = repositoryOn(store, records, () => tasks?.now ?? Date.now());
    tasks = new TestTasks({ ...records, store, repository });
    place = tasks;
  });
  afterEach(() => place.close());

  const rawRows = async (task: string): Promise<KeyValue[]> =>
    (await raw.read(LOOK, (reader) => reader.getRange(keys.ofTask("checkpoints", task), { limit: 100 })))
      .rows;
  const wrapped = (task: string): Promise<Bytes | undefined> =>
    raw.read(LOOK, (reader) => reader.get(keys.dataKeys(task)));
  const sound = async () =>
    expect((await scrub({ store: place.store, repository: place.repository })).findings).toEqual([]);

  /** A copy of its rows is put back: a store that has its keys only cannot read them. */
  async function requireUnreadable(copy: readonly KeyValue[]): Promise<void> {
    expect(copy.length).toBeGreaterThan(0);
    await raw.transact(WRITE, async (tx) => {
      for (const { key, value } of copy) tx.set(key, value);
    });
    const { store } = await openEncryption(raw, [root]);
    for (const { key, value } of copy) {
      expect(sealedWith(value)).not.toBeNull();
      const read = await store.read(LOOK, (reader) => reader.get(key));
      expect(Buffer.from(read!).every((byte) => byte === 0xc1)).toBe(true);
    }
    await raw.transact(WRITE, async (tx) => {
      for (const { key } of copy) tx.clear(key);
    });
  }

  const missionOf = async ({ missions }: CheckpointRepository) => {
    const { title } = await missions.find("default", "dispatch", { mission_id: MISSION });
    return { title, ...(await missions.sorties("default", { mission_id: MISSION, limit: 10 })) };
  };

  test("by retention: when the final checkpoint of a completed task goes", async () => {
    const [task, other] = [place.fresh(), place.fresh()];
    await create(place.repository, { task, checkpoint: input({ goal: "canary" }) });
    await create(place.repository, { task: other, checkpoint: input({ goal: "kept" }) });
    const done = await create(place.repository, { task, checkpoint: input({ phase: "complete" }) });
    await finalize(place.repository, done.checkpoint_id, "succeeded", { task });
    const [copy, oldKey, otherKey] = [await rawRows(task), await wrapped(task), await wrapped(other)];
    expect(await place.retain()).toBe(1);
    // The final one is read for 30 days more.
    expect(await wrapped(task)).toEqual(oldKey);
    expect((await place.repository.latest("default", task)).checkpoint?.metadata.seq).toBe(2);
    place.now += 30.1 * DAY_MS;
    expect(await place.retain()).toBe(1);
    expect(await wrapped(task)).toBeDefined();
    expect(await wrapped(task)).not.toEqual(oldKey);
    expect(await wrapped(other)).toEqual(otherKey);
    await requireUnreadable(copy);
    // What stays is read, by this service and by one that has not known the task.
    const fresh = repositoryOn((await openEncryption(raw, [root])).store, records, () => place.now);
    for (const repository of [place.repository, fresh]) {
      expect(await repository.task("default", task)).toMatchObject({ state: "completed" });
      expect((await repository.latest("default", task)).removed).toMatchObject({ reason: "completed" });
      expect((await repository.latest("default", other)).checkpoint?.execution_state.goal).toBe("kept");
    }
    expect((await place.trail(task)).map(({ op }) => op)).toContain("remove");
    await sound();
    // A new checkpoint opens the task again.
    await create(place.repository, { task, checkpoint: input({ goal: "again" }) });
    expect((await fresh.latest("default", task)).checkpoint?.execution_state.goal).toBe("again");
    await sound();
  });

  test("by an operator's command, and not by one that leaves a checkpoint", async () => {
    const task = place.fresh();
    const first = await create(place.repository, { task, checkpoint: input({ goal: "canary" }) });
    const done = await create(place.repository, { task, checkpoint: input({ phase: "complete" }) });
    await finalize(place.repository, done.checkpoint_id, "succeeded", { task });
    const [copy, oldKey] = [await rawRows(task), await wrapped(task)];
    const remove = (id: string) =>
      send(place.repository, "remove", { checkpoint_id: id }, { task, agent: OPERATOR.caller });
    await remove(first.checkpoint_id);
    expect(await wrapped(task)).toEqual(oldKey);
    place.now += 30.1 * DAY_MS;
    await remove(done.checkpoint_id);
    expect(await wrapped(task)).not.toEqual(oldKey);
    await requireUnreadable(copy);
    await sound();
  });

  test("the records of a mission stay readable", async () => {
    const by = { task: MISSION, agent: "dispatch" };
    await startMission(place.repository, 1);
    await completeSortie(place.repository, 1);
    await send(place.repository, "mission_update", { status: "completed" }, by);
    const [copy, oldKey] = [await rawRows(MISSION), await wrapped(MISSION)];
    const before = await missionOf(place.repository);
    place.now += 30.1 * DAY_MS;
    await place.retain();
    expect((await place.repository.latest("default", MISSION)).checkpoint).toBeNull();
    expect(await wrapped(MISSION)).not.toEqual(oldKey);
    const fresh = repositoryOn((await openEncryption(raw, [root])).store, records, () => place.now);
    for (const repository of [place.repository, fresh]) expect(await missionOf(repository)).toEqual(before);
    expect(before).toMatchObject({ sorties: [{ status: "completed" }] });
    await requireUnreadable(copy);
    await sound();
  });
});
