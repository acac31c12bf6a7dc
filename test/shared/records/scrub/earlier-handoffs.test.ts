// Handoffs that an earlier version wrote: their entries do not state the hash of the checkpoint, and a recovery may have handed off an
// earlier version than the newest one.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { AuditEntry } from "../../../../shared/lifecycle/replay.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { ScrubStep, TaskScrub } from "../../../../shared/records/scrub/scrub-reader.ts";
import { FOLD_START, foldEntries, verifyHandoffsOf } from "../../../../shared/records/scrub/trail/fold.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const STORE = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
const NONE = "0".repeat(64);

describe.each(ENGINES)("a handoff of an earlier version on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  /** What the handoffs of a task show. `states`: its entries state hashes, as they do today. */
  async function found(task: string, { states = false } = {}): Promise<string[]> {
    const entries = (await place.trail(task)).map(({ from_hash, ...entry }) =>
      states && from_hash !== undefined ? { ...entry, from_hash } : entry,
    ) as unknown as AuditEntry[];
    return place.store.read(STORE, async (reader) => {
      const step = new ScrubStep(reader, { passBeganMs: 0, bytesMax: 10_000_000 });
      const scrub = new TaskScrub(step, "default", task, { canMark: false, found: 0 });
      const fold = await foldEntries(scrub, FOLD_START, entries);
      if (fold === null) throw new Error("the trail has no fold");
      await verifyHandoffsOf(scrub, fold);
      return step.damages.map(({ details }) => details);
    });
  }

  async function edit(id: string, change: Partial<Handoff>): Promise<void> {
    const handoff = await place.handoff(id);
    await place.store.transact(STORE, async (tx) =>
      tx.set(tenantKeys("default").handoff(id), encodeChecked({ ...handoff, ...change })),
    );
  }

  /** A checkpoint of two versions. */
  async function updated(): Promise<{ task: string; id: string; hashes: readonly [string, string] }> {
    const task = await place.owned(1);
    const id = (await place.head(task)).latest_id!;
    const first = await place.repository.get("default", id);
    const patch = { execution_state: { current_focus: "the rest" } };
    await send(place.repository, "update", { checkpoint_id: id, patch }, { task, fence: 1 });
    const second = await place.repository.get("default", id);
    return { task, id, hashes: [first.compliance.hash, second.compliance.hash] };
  }

  async function attempted(): Promise<{ task: string; handoff: string; hashes: readonly [string, string] }> {
    const { task, hashes } = await updated();
    await place.fail(task);
    await place.attempt(task);
    return { task, handoff: (await place.head(task)).handoff_id!, hashes };
  }

  test("a recovery may have handed off the version before, but none that does not exist", async () => {
    const { task, handoff, hashes } = await attempted();
    expect((await place.handoff(handoff)).checkpoint_hash).toBe(hashes[1]);
    expect(await found(task)).toEqual([]);
    await edit(handoff, { checkpoint_hash: hashes[0] });
    expect(await found(task)).toEqual([]);
    expect(await found(task, { states: true })).toEqual([
      `handoff ${handoff} differs from the trail in: checkpoint_hash`,
    ]);
    await edit(handoff, { checkpoint_hash: NONE });
    expect(await found(task)).toEqual([`handoff ${handoff} differs from the trail in: checkpoint_hash`]);
  });

  test("a handoff that an agent requested has the hash of the newest version", async () => {
    const { task, hashes } = await updated();
    const { handoff_id: handoff } = await send(place.repository, "handoff", {}, { task, fence: 1 });
    expect(await found(task)).toEqual([]);
    await edit(handoff!, { checkpoint_hash: hashes[0] });
    expect(await found(task)).toEqual([`handoff ${handoff} differs from the trail in: checkpoint_hash`]);
  });

  test("a handoff of an older checkpoint has the hash of one of its versions", async () => {
    const { task, id, hashes } = await updated();
    await place.write(task, "agent-1", { completed: 2 });
    const body = { checkpoint_id: id };
    const { handoff_id: handoff } = await send(place.repository, "handoff", body, { task, fence: 1 });
    for (const checkpoint_hash of hashes) {
      await edit(handoff!, { checkpoint_hash });
      expect(await found(task)).toEqual([]);
    }
    await edit(handoff!, { checkpoint_hash: NONE });
    expect(await found(task)).toEqual([`handoff ${handoff} differs from the trail in: checkpoint_hash`]);
  });
});
