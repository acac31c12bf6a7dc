// A restored store: no owner of the lost future may write under any fence, and a restore may be interrupted anywhere.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openFormat, readFormat } from "../../../../shared/records/kv/format.ts";
import { fenceFloorOf, nextIncarnation } from "../../../../shared/records/kv/incarnation.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { supersedeAll } from "../../../../shared/records/restored/restored-store.ts";
import { waitingEvents } from "../../../harness/records/outbox.ts";
import {
  create,
  ENGINES,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const HOUR_MS = 3_600_000;
const OLGA = { id: "human=olga", type: "human" } as const;

describe.each(ENGINES)("a restored store on %s", (engine) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  const restored = (nowMs = Date.now()) =>
    supersedeAll(bench.store, { backupAt: new Date(nowMs - HOUR_MS).toISOString(), nowMs, actor: OLGA });

  /** The services after a restore: they read the format when they start. */
  async function services(): Promise<TestRecords> {
    const format = await openFormat(bench.store);
    const parts = { store: bench.store, format, finder: "reader", now: Date.now, onCorrupt: () => {} };
    return { ...bench, format, repository: new CheckpointRepository(parts) };
  }

  test("every task loses its owner, its fence rises, and the trail states it", async () => {
    for (let n = 0; n < 60; n += 1) await send(bench.repository, "take", {}, { task: `task-${n}` });
    await create(bench.repository, { task: "unowned" });
    await create(bench.repository, { tenant: "acme", task: "theirs" });
    expect(await restored()).toMatchObject({ tasks: 62, superseded: 60, damaged: 0 });
    const { repository, format } = await services();
    const floor = fenceFloorOf(format.incarnation);
    const task = await repository.task("default", "task-7");
    expect([task.owner, task.fence >= floor]).toEqual([null, true]);
    const { entries } = await repository.audit("default", { task_id: "task-7", from_seq: 2, limit: 10 });
    expect(JSON.parse(entries[0]!.entry)).toMatchObject({
      op: "store_restore",
      owner_from: "agent-1",
      owner_to: null,
      actor: { id: "restore", type: "service" },
    });
    expect((await scrub(await services())).findings).toEqual([]);
  });

  test.each([
    ["of the backup", 1, "FENCED"],
    ["of the lost future", 7, "FENCED"],
  ])("a fence %s is refused, before and after the task has a new owner", async (_what, fence, code) => {
    await send(bench.repository, "take", {}, { task: "task-1" });
    await restored();
    const { repository } = await services();
    const writes = () => create(repository, { task: "task-1", fence });
    await expect(writes()).rejects.toMatchObject({ code });
    const { fence: next } = await send(repository, "take", {}, { task: "task-1", agent: "agent-2" });
    await expect(writes()).rejects.toMatchObject({ code });
    await expect(
      create(repository, { task: "task-1", agent: "agent-2", fence: next }),
    ).resolves.toBeDefined();
  });

  test("a task that only the lost future had begins above its fences", async () => {
    await restored();
    const now = await services();
    const { fence } = await send(now.repository, "take", {}, { task: "again" });
    expect(fence).toBe(fenceFloorOf(now.format.incarnation) + 1);
    await expect(create(now.repository, { task: "again", fence: 1 })).rejects.toMatchObject({
      code: "FENCED",
    });
    await create(now.repository, { task: "again", fence });
    await create(now.repository, { task: "without-owner" });
    expect((await scrub(now)).findings).toEqual([]);
  });

  test("events get ids that the lost future cannot have used", async () => {
    await create(bench.repository, { task: "task-1" });
    await restored();
    const { repository, format } = await services();
    await create(repository, { task: "task-1" });
    const ids = (await waitingEvents(bench.store, "CHECKPOINT_CREATED")).map(({ id }) => id);
    expect(ids).toContain("default/task-1/1");
    expect(ids).toContain(`default/task-1/3@${format.incarnation}`);
  });

  test("an interrupted restore keeps services out, continues where it was, and supersedes no task twice", async () => {
    for (let n = 0; n < 60; n += 1) await create(bench.repository, { task: `task-${n}` });
    let left = 2;
    const failing = {
      ...bench.store,
      read: bench.store.read.bind(bench.store),
      transact: (async (options, body) => {
        if (options.label === "restore_tasks" && left-- === 0) throw new Error("killed");
        return bench.store.transact(options, body);
      }) as typeof bench.store.transact,
    } as typeof bench.store;
    const times = { backupAt: new Date(0).toISOString(), nowMs: Date.now(), actor: OLGA };
    await expect(supersedeAll(failing, times)).rejects.toThrow("killed");
    await expect(openFormat(bench.store)).rejects.toMatchObject({ code: "CONFLICT" });
    const begun = await readFormat(bench.store);
    expect(await restored()).toMatchObject({ incarnation: begun?.incarnation, tasks: 10 });
    const { repository } = await services();
    for (let n = 0; n < 60; n += 1)
      expect(await repository.task("default", `task-${n}`)).toMatchObject({ audit_seq: 2 });
  });

  test("one backup restored twice gets another incarnation, and higher fences", async () => {
    const nowMs = Date.now();
    const [first, second] = [nextIncarnation(1, nowMs), nextIncarnation(1, nowMs + 1_000)];
    expect(second).toBeGreaterThan(first);
    expect(fenceFloorOf(second)).toBeGreaterThan(fenceFloorOf(first) + 200);
    expect(nextIncarnation(second, nowMs)).toBe(second + 1);
  });

  test("a clock before the backup is refused, and nothing is changed", async () => {
    await create(bench.repository, { task: "task-1" });
    const nowMs = Date.now();
    const backupAt = new Date(nowMs + HOUR_MS).toISOString();
    await expect(supersedeAll(bench.store, { backupAt, nowMs, actor: OLGA })).rejects.toMatchObject({
      code: "CONFLICT",
    });
    expect(await openFormat(bench.store)).toEqual(bench.format);
  });
});
