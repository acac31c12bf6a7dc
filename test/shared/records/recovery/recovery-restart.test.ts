// An agent that is restarted by name: its take counts as the due attempt, once for each of its failures.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

describe.each(ENGINES)("a restarted agent on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  const take = (task: string, agent = "agent-1", heartbeats = false) =>
    send(place.repository, "take", heartbeats ? { heartbeats } : {}, { task, agent });
  const budget = async (task: string) => {
    const { state, attempts, rung, rung_attempts: onRung } = await place.recovery(task);
    return { state, attempts, rung, onRung };
  };

  test.each([
    ["nothing", 0],
    ["the same items as before", 2],
  ])(
    "that crashes each time after writing %s spends the budget, and the task waits for an operator",
    async (_, completed) => {
      const task = await place.owned(2);
      let failures = 0;
      // The watchdogs answer its first failure at once, with an offer that no agent accepts.
      for (
        ;
        (await place.fail(task)).applied && (await place.recovery(task)).state === "waiting";
        failures += 1
      ) {
        if (failures === 0) await place.attempt(task);
        await take(task);
        if (completed > 0) await place.write(task, "agent-1", { completed });
      }
      expect(failures).toBe(5);
      expect(await place.head(task)).toMatchObject({
        state: "blocked",
        recovery: { state: "blocked", attempts: 5, failures: 6 },
        blocked: { reason: "attempts_spent" },
      });
      const trail = await place.trail(task);
      const counted = trail.flatMap(({ op, attempt, rung }) =>
        attempt === undefined ? [] : [[op, attempt, rung]],
      );
      expect(counted).toEqual([
        ["recover", 1, "latest"],
        ["settle", 2, "latest"],
        ["settle", 3, "latest"],
        ["settle", 4, "previous"],
        ["settle", 5, "previous"],
      ]);
      expect((await place.outbox(task)).at(-1)?.event.type).toBe("TASK_BLOCKED");
      // A take is never refused: it may be an operator's.
      expect(await take(task)).toMatchObject({ owner: "agent-1" });
      expect(await place.head(task)).toMatchObject({ state: "blocked", owner: "agent-1" });
    },
  );

  test("under another name each time spends the budget as well", async () => {
    const task = await place.owned();
    for (let failures = 1; ; failures += 1) {
      const { owner, fence } = await place.head(task);
      expect((await place.fail(task, { class: "crash", agent_id: owner, fence })).applied).toBe(true);
      if ((await place.recovery(task)).state === "blocked") break;
      expect(failures).toBeLessThanOrEqual(5);
      await take(task, `host-${failures}`, true);
    }
    expect((await place.recovery(task)).blocked).toMatchObject({ reason: "attempts_spent" });
  });

  test("counts once for each failure, however often it takes the task", async () => {
    const task = await place.owned();
    await place.fail(task, { class: "tool_error" });
    expect(await budget(task)).toEqual({ state: "waiting", attempts: 0, rung: "latest", onRung: 0 });
    for (let n = 0; n < 3; n += 1) await take(task);
    expect(await budget(task)).toEqual({ state: "idle", attempts: 1, rung: "latest", onRung: 1 });
    expect((await place.recovery(task)).recent).toHaveLength(1);
    expect(await place.dueRecoveries()).not.toContainEqual(expect.objectContaining({ task }));
  });

  test("that takes the task while it is offered is not counted twice", async () => {
    const task = await place.attempted();
    await take(task);
    expect(await budget(task)).toEqual({ state: "idle", attempts: 1, rung: "latest", onRung: 1 });
  });

  test("restores the budget when it completes more items than ever", async () => {
    const task = await place.owned(2);
    await place.fail(task, { class: "tool_error" });
    await take(task);
    await place.write(task, "agent-1", { completed: 3 });
    expect(await budget(task)).toEqual({ state: "idle", attempts: 0, rung: "latest", onRung: 0 });
  });

  test("is not counted after an operator's request; nor is a take by an operator", async () => {
    const task = await place.owned();
    await send(place.repository, "recover", { force: true }, { task, agent: "anna" });
    await take(task);
    expect(await budget(task)).toMatchObject({ state: "idle", attempts: 0 });
    await place.fail(task, { class: "tool_error" });
    await take(task, "cli-anna");
    expect(await budget(task)).toMatchObject({ state: "idle", attempts: 0 });
  });
});
