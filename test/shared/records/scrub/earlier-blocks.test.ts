// Blocks that an earlier version wrote for a handoff: they are in no index until a scrub upgrades their heads.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { TaskRecord } from "../../../../shared/lifecycle/task.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { decodeHead, encodeHead } from "../../../../shared/records/task/head.ts";
import { offer } from "../../../harness/records/handoffs.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

describe.each(ENGINES)("a block by a handoff of an earlier version on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  /** Blocks a task and removes what earlier versions did not write. */
  async function earlierBlock(): Promise<string> {
    const { task, id } = await place.requested();
    await offer(place.repository, id);
    await place.escalate(id, "no agent is available");
    const keys = tenantKeys("default");
    await place.store.transact(WRITE, async (tx) => {
      const head = decodeHead((await tx.get(keys.task(task))) as Uint8Array);
      const work = { ...head.work, by: "handoff" } as TaskRecord["work"];
      tx.set(keys.task(task), encodeHead({ ...head, work }));
      tx.clear(keys.recovering(task));
      tx.addI64(systemKeys.count("recoveries_blocked"), -1n);
    });
    return task;
  }

  const isListed = async (task: string) => {
    const { tasks } = await place.repository.recoveries("default", { state: "blocked", limit: 100 });
    return tasks.some(({ task_id }) => task_id === task);
  };
  const blockedCount = async () => (await place.repository.recoveryActions.counts()).blocked;

  test("is listed and counted after a scrub, which finds no damage", async () => {
    const before = await blockedCount();
    const task = await earlierBlock();
    expect([await isListed(task), await blockedCount()]).toEqual([false, before]);
    for (let pass = 0; pass < 2; pass += 1) {
      expect((await scrub(place)).findings).toEqual([]);
      expect([await isListed(task), await blockedCount()]).toEqual([true, before + 1]);
    }
  });

  test("is counted right if an agent takes and releases the task before a scrub", async () => {
    const before = await blockedCount();
    const task = await earlierBlock();
    const { fence } = await send(place.repository, "take", {}, { task, agent: "agent-1" });
    expect([await isListed(task), await blockedCount()]).toEqual([false, before]);
    await send(place.repository, "release", {}, { task, fence });
    expect([await isListed(task), await blockedCount()]).toEqual([true, before + 1]);
    expect((await scrub(place)).findings).toEqual([]);
    expect(await blockedCount()).toBe(before + 1);
  });

  test("is counted right if a recovery is requested before a scrub", async () => {
    const before = await blockedCount();
    const task = await earlierBlock();
    await send(place.repository, "recover", { force: true }, { task, agent: "anna" });
    expect(await place.recovery(task)).toMatchObject({ state: "waiting" });
    expect(await blockedCount()).toBe(before);
  });
});
