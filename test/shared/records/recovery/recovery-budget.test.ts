// The budget of a recovery: the writes that restore it, those that do not, and probes.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Policies } from "../../../../shared/protocol/policy.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { items } from "../../../harness/records/recoveries.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { flip } from "../search/corpus.ts";

const iso = (ms: number): string => new Date(ms).toISOString();

describe.each(ENGINES)("the budget on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  test("more completed items than ever before restore the budget; recent attempts still count in the window", async () => {
    const task = await place.resumed(2);
    await place.write(task, "agent-2", { completed: 3 });
    expect(await place.recovery(task)).toMatchObject({
      state: "idle",
      failures: 0,
      attempts: 0,
      rung: "latest",
      rung_attempts: 0,
      avoid_id: null,
      completed_items: 3,
      recent: [expect.any(String)],
    });
    expect((await place.outbox(task)).at(-1)?.event).toMatchObject({
      type: "RECOVERY_SETTLED",
      data: { taskId: task, reason: "progress" },
    });
  });

  test("an update restores it too", async () => {
    const task = await place.resumed();
    const { latest_id: checkpoint_id, fence } = await place.head(task);
    const patch = { execution_state: { completed_items: ["item 1", "item 2"] } };
    await send(place.repository, "update", { checkpoint_id, patch }, { task, agent: "agent-2", fence });
    expect((await place.recovery(task)).state).toBe("idle");
  });

  test.each([
    ["the same items again", { completed_items: ["item 1", "item 2"] }],
    ["the same item many times", { completed_items: Array.from({ length: 50 }, () => "item 1") }],
    ["other items, but no more of them", { completed_items: ["new 1", "new 2"] }],
    ["fewer", { completed_items: ["item 1"] }],
    ["a higher percentage", { completed_items: ["item 1", "item 2"], progress_percent: 99 }],
    ["a longer text", { completed_items: ["item 1", "item 2"], current_focus: "almost there ".repeat(50) }],
    ["another phase", { completed_items: ["item 1", "item 2"], phase: "reviewing" }],
    ["items to be done", { completed_items: ["item 1", "item 2"], pending_items: ["a", "b", "c"] }],
  ])("%s: no progress", async (_what, state) => {
    const task = await place.resumed(2);
    const { fence } = await place.head(task);
    const checkpoint = {
      metadata: { agent_type: "qa" },
      execution_state: { phase: "implementing", pending_items: [], ...state },
    };
    await send(place.repository, "create", { checkpoint }, { task, agent: "agent-2", fence });
    expect(await place.recovery(task)).toMatchObject({ state: "resumed", failures: 1, attempts: 1 });
  });

  test("repeated work is no progress", async () => {
    const task = await place.resumed(1);
    await place.write(task, "agent-2", { completed: 5 });
    await place.write(task, "agent-2", { completed: 9 });
    expect(await place.recovery(task)).toMatchObject({ state: "idle", completed_items: 9 });
    await place.fail(task);
    await place.attempt(task);
    await place.takeOver(task, "agent-3");
    for (const completed of [1, 5, 9]) await place.write(task, "agent-3", { completed });
    expect((await place.recovery(task)).state).toBe("resumed");
    await place.write(task, "agent-3", { completed: 10 });
    expect((await place.recovery(task)).state).toBe("idle");
  });

  test("a blocked task continues when its new owner writes, with the same budget until there is progress", async () => {
    const task = await place.spent();
    await send(place.repository, "take", {}, { task, agent: "somebody" });
    await place.write(task, "somebody", { completed: 2 });
    expect(await place.head(task)).toMatchObject({ state: "active" });
    expect(await place.recovery(task)).toMatchObject({ state: "idle", attempts: 5, blocked: null });
    await place.write(task, "somebody", { completed: 3 });
    expect(await place.recovery(task)).toMatchObject({ state: "idle", attempts: 0, failures: 0 });
  });

  test("items completed while the budget was whole count: repeating the work of a lost checkpoint is no progress", async () => {
    const task = await place.resumed(1);
    await place.write(task, "agent-2", { completed: 2 });
    await place.write(task, "agent-2", { completed: 8 });
    const { latest_id, fence } = await place.head(task);
    const patch = { execution_state: { completed_items: items(9) } };
    await send(
      place.repository,
      "update",
      { checkpoint_id: latest_id, patch },
      { task, agent: "agent-2", fence },
    );
    expect(await place.recovery(task)).toMatchObject({ state: "idle", completed_items: 9 });
    await flip(place.store, task, latest_id as string);
    await place.fail(task);
    await place.attempt(task);
    await place.takeOver(task, "agent-3");
    await place.write(task, "agent-3", { completed: 9 });
    expect(await place.recovery(task)).toMatchObject({ state: "resumed", attempts: 1 });
  });
});

describe.each(ENGINES)("probes on %s", (engine) => {
  let place: TestTasks;
  const policies: Policies = {
    defaults: { recovery: { half_open_ms: 60_000, attempts: 1, previous_attempts: 0 } },
    tenants: {},
  };
  beforeAll(async () => {
    place = await TestTasks.open(engine, policies);
  });
  afterAll(() => place.close());

  test("a probe makes one attempt; when it fails, the task is blocked for the same pause again", async () => {
    const task = await place.spent(1);
    const { due_at } = await place.recovery(task);
    expect(due_at).toBe(iso(place.now + 60_000));
    const at = { dueAt: due_at ?? "" };
    const key = { tenant: "default", task };
    expect(await place.repository.recoveryActions.probe(key, at)).toMatchObject({ applied: false });
    place.now += 60_000;
    const probes = await Promise.all([1, 2, 3].map(() => place.repository.recoveryActions.probe(key, at)));
    expect(probes.filter(({ applied }) => applied)).toHaveLength(1);
    expect(await place.head(task)).toMatchObject({ state: "active", recovery: { state: "waiting" } });
    await place.attempt(task);
    await place.takeOver(task, "agent-9");
    await place.fail(task);
    expect(await place.recovery(task)).toMatchObject({
      state: "blocked",
      attempts: 2,
      due_at: iso(place.now + 60_000),
      blocked: { reason: "attempts_spent" },
    });
  });

  test("a probe that makes progress restores the budget", async () => {
    const task = await place.spent(1);
    place.now += 60_000;
    const { due_at } = await place.recovery(task);
    await place.repository.recoveryActions.probe({ tenant: "default", task }, { dueAt: due_at ?? "" });
    await place.attempt(task);
    await place.takeOver(task, "agent-9");
    await place.write(task, "agent-9", { completed: 2 });
    expect(await place.recovery(task)).toMatchObject({ state: "idle", is_probe: false, attempts: 0 });
  });
});
