// The recovery controller over a real store: attempts up to the cap, none twice, and none for ever.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAdmission } from "../../../../services/watchdog/recovery/admission.ts";
import {
  startRecoveryController,
  takeRecoverySteps,
} from "../../../../services/watchdog/recovery/recovery-controller.ts";
import type { DuePlace, RecoveryPlace } from "../../../../shared/records/recovery/due.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

let place: TestTasks;
beforeEach(async () => {
  place = await TestTasks.open("memory");
});
afterEach(() => place.close());

function watchdog(max = 256) {
  const clock = manualClock(place.now);
  const { repository } = place;
  const admission = createAdmission(repository, clock, max);
  const run = (due: RecoveryPlace) => takeRecoverySteps(clock, repository, admission, due);
  return { clock, admission, run };
}

/** A task whose agent, of this type, has just failed, and whose recovery is due. */
async function failed(agentType = "qa"): Promise<DuePlace> {
  const task = await place.owned();
  expect(await place.fail(task, { agent_type: agentType })).toMatchObject({ applied: true });
  return { tenant: "default", task, agentType };
}

const several = (count: number, agentType?: string): Promise<DuePlace[]> =>
  Promise.all(Array.from({ length: count }, () => failed(agentType)));

const stateOf = async (task: string): Promise<string> => (await place.recovery(task)).state;

async function attempted(tasks: readonly DuePlace[]): Promise<DuePlace[]> {
  const states = await Promise.all(tasks.map(({ task }) => stateOf(task)));
  return tasks.filter((_, i) => states[i] === "attempted");
}

describe("admission", () => {
  test("attempts above the cap wait for a pause and are made when there is capacity", async () => {
    const { clock, admission, run } = watchdog(4);
    const tasks = await several(4);
    const runAll = () => Promise.all(tasks.map(run));
    await runAll();
    const first = await attempted(tasks);
    expect(first).toHaveLength(2);
    expect(admission.has(tasks[0]!)).toBe(true);
    expect(admission.endsInMs).toBeLessThanOrEqual(1_000);

    // There is no capacity yet, so another run changes nothing.
    await clock.advance(1_000);
    expect(admission.has(tasks[0]!)).toBe(false);
    expect(admission.endsInMs).toBe(Number.POSITIVE_INFINITY);
    await runAll();
    expect(await attempted(tasks)).toEqual(first);

    // An operator takes those tasks.
    for (const { task } of first) await send(place.repository, "take", {}, { task, agent: "person" });
    await clock.advance(1_000);
    await runAll();
    const second = await attempted(tasks);
    expect(second).toHaveLength(2);
    for (const one of second) expect(first).not.toContain(one);
  });

  test("attempts for a type without agents leave capacity for every other type, in every watchdog", async () => {
    const missing = await several(12, "legal");
    const others = { qa: await several(4, "qa"), documentation: await several(4, "documentation") };
    // Each watchdog begins with the counts of the store alone.
    const runAll = async (tasks: readonly DuePlace[]) => {
      await Promise.all(tasks.map(watchdog(12).run));
      return (await attempted(tasks)).length;
    };
    expect(await runAll(missing)).toBe(6);
    expect(await runAll(others.qa)).toBe(3);
    expect(await runAll(others.documentation)).toBe(2);
    // The tasks that have waited longest do not get the rest.
    expect(await runAll(missing)).toBe(6);
    expect(await runAll([await failed("architecture")])).toBe(1);
  });

  test("the search finds a type with capacity behind any number of tasks of a saturated type", async () => {
    const { clock, admission } = watchdog(4);
    // More than a page of the search.
    await several(300, "legal");
    place.now += 10;
    const other = await failed("qa");
    await clock.advance(10);
    const controller = startRecoveryController({ clock, log: testLog }, place.repository, admission);
    try {
      await expect.poll(() => stateOf(other.task), { timeout: 25_000 }).toBe("attempted");
      expect((await place.repository.recoveryActions.counts()).attempted).toBe(3);
    } finally {
      await controller.stop();
    }
  });

  test("tasks of a saturated type wait without a run, and those of other types and tenants do not", async () => {
    const { clock, admission, run } = watchdog(1);
    const [first, second, third] = await several(3);
    await run(first!);
    await run(second!);
    expect(admission.has(third!)).toBe(true);
    expect(admission.has({ ...third!, agentType: "legal" })).toBe(false);
    expect(admission.has({ ...third!, tenant: "acme" })).toBe(false);
    await clock.advance(1_000);
    expect(admission.has(third!)).toBe(false);
  });

  test("several watchdogs that run one recovery at once make one attempt", async () => {
    const one = await failed();
    await Promise.all([watchdog(), watchdog(), watchdog()].map(({ run }) => run(one)));
    expect(await place.recovery(one.task)).toMatchObject({ state: "attempted", attempts: 1 });
  });
});

test("a task without a checkpoint is blocked", async () => {
  const where = { tenant: "default", task: place.fresh(), agentType: "qa" };
  await send(place.repository, "take", {}, { task: where.task });
  await place.fail(where.task);
  await watchdog().run(where);
  expect(await place.recovery(where.task)).toMatchObject({
    state: "blocked",
    blocked: { reason: "no_checkpoint" },
  });
});

test("a recovery that is not due stays unchanged, and an unknown task is not an error", async () => {
  const { run } = watchdog();
  const one = await failed();
  await run(one);
  const before = await place.recovery(one.task);
  await run(one);
  await run({ tenant: "default", task: "none" });
  expect(await place.recovery(one.task)).toEqual(before);
});
