/** The counters of tasks and checkpoints, compared with the records that a pass has verified. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Tx } from "../../../../shared/store/store.ts";
import { create, ENGINES, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
const [FEWER, MORE] = [
  "the store has fewer tasks than it counts",
  "the store has more tasks than it counts",
] as const;

describe.each(ENGINES)("the counters on %s", (engine) => {
  let bench: TestRecords;
  const edit = (change: (tx: Tx) => unknown) =>
    bench.store.transact(WRITE, async (tx) => {
      await change(tx);
    });
  const found = async (between?: () => Promise<unknown>) => {
    const { findings } = await scrub(bench, { stepBytes: 2_000, ...(between && { between }) });
    return findings.map(({ details }) => details);
  };

  beforeEach(async () => {
    bench = await openTestRecords(engine);
    for (const task of ["task-a", "task-b", "task-c"]) await create(bench.repository, { task });
  });
  afterEach(() => bench.close());

  test("agree with the store while tasks are created", async () => {
    let created = 0;
    const writing = async () => {
      // Some lie before the position of the pass and some after it.
      if (created < 6) await create(bench.repository, { task: `task-${"azbycx"[created]}-${created++}` });
    };
    expect(await found(writing)).toEqual([]);
    expect(created).toBe(6);
  });

  test.each([
    ["fewer tasks", 1n, [FEWER]],
    ["more tasks", -1n, [MORE]],
  ] as const)("show %s than are counted", async (_, difference, expected) => {
    await edit((tx) => tx.addI64(systemKeys.count("tasks"), difference));
    expect(await found()).toEqual(expected);
  });

  test("show a task that was deleted with all its rows", async () => {
    const keys = tenantKeys("default");
    await edit((tx) => {
      for (const range of [keys.auditRange("task-b"), keys.orderRange("task-b")]) tx.clearRange(range);
      tx.clear(keys.task("task-b"));
    });
    expect(await found()).toContain(FEWER);
  });

  test("show checkpoints that no command created", async () => {
    await edit((tx) => tx.addI64(systemKeys.count("checkpoints"), -1n));
    expect(await found()).toEqual(["the store has more checkpoints than it counts"]);
  });
});
