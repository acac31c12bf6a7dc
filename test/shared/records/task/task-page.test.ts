// The list of the tasks of a tenant: filters, pages, progress, and a damaged head.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { refusal } from "../../../harness/records/handoffs.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

describe.each(ENGINES)("the list of tasks on %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  const list = (query = {}) => place.repository.tasks("default", { limit: 20, ...query });
  const names = ({ tasks }: Awaited<ReturnType<typeof list>>) => tasks.map(({ task_id }) => task_id);
  const write = (task: string, agent: string, phase: string, progress_percent?: number) => {
    const state = { phase, ...(progress_percent !== undefined && { progress_percent }) };
    const checkpoint = {
      metadata: { agent_type: agent === "tester" ? "qa" : "implementation" },
      execution_state: state,
    };
    return send(place.repository, "create", { checkpoint }, { task, agent });
  };

  test("tasks are listed by name with their progress, in pages, and match all filters", async () => {
    await write("a", "coder", "implementing", 40);
    await write("b", "tester", "testing");
    await write("c", "coder", "testing", 100);
    await send(place.repository, "take", {}, { task: "d", agent: "tester" });
    await send(place.repository, "take", {}, { task: "c", agent: "other" });

    const all = await list();
    expect(all.tasks.map(({ task_id, progress_percent }) => [task_id, progress_percent])).toEqual([
      ["a", 40],
      ["b", null],
      ["c", 100],
      ["d", null],
    ]);
    expect(all).toMatchObject({ corrupt: [] });
    expect(all).not.toHaveProperty("cursor");
    expect(names(await list({ phase: "testing" }))).toEqual(["b", "c"]);
    expect(names(await list({ agent_id: "tester" }))).toEqual(["b", "d"]);
    expect(names(await list({ agent_id: "other", agent_type: "implementation" }))).toEqual(["c"]);
    expect(names(await list({ state: "blocked" }))).toEqual([]);
    expect((await list({ task_id: "a" })).tasks).toMatchObject([{ task_id: "a", progress_percent: 40 }]);
    expect(names(await list({ task_id: "a", phase: "testing" }))).toEqual([]);
    expect(await list({ task_id: "ab" })).toEqual({ tasks: [], corrupt: [] });
    expect(await place.repository.tasks("acme", { limit: 20 })).toEqual({ tasks: [], corrupt: [] });

    const first = await list({ limit: 3 });
    expect(names(first)).toEqual(["a", "b", "c"]);
    const second = await list({ limit: 3, cursor: first.cursor });
    expect(names(second)).toEqual(["d"]);
    expect(second).not.toHaveProperty("cursor");
    const other = { phase: "testing", cursor: first.cursor };
    expect((await refusal(list(other))).fields[0]?.path).toBe("cursor");
  });

  test("a task with a damaged head is named, and hides no other task", async () => {
    for (const task of ["a", "b", "c"]) await write(task, "coder", "implementing");
    await place.store.transact(WRITE, async (tx) =>
      tx.set(tenantKeys("default").task("b"), Buffer.from("damaged")),
    );
    const all = await list();
    expect([names(all), all.corrupt]).toEqual([["a", "c"], ["b"]]);
    expect(await list({ task_id: "b" })).toEqual({ tasks: [], corrupt: ["b"] });
    expect(await list({ task_id: "c" })).toMatchObject({ tasks: [{ task_id: "c" }], corrupt: [] });
  });
});
