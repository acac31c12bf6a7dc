// Recoveries carried on over a real store: no more at once than the setting says, none twice, and none for ever.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAdmission } from "../../../../services/watchdog/recovery/admission.ts";
import { createRecovering } from "../../../../services/watchdog/recovery/recovery-controller.ts";
import { sweepRecoveries } from "../../../../services/watchdog/recovery/recovery-sweep.ts";
import type { DuePlace } from "../../../../shared/records/recovery/due.ts";
import type { Clock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { send } from "../../../harness/records/records.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

let place: TestTasks;
beforeEach(async () => {
  place = await TestTasks.open("memory");
});
afterEach(() => place.close());

const context = (clock: Clock) => ({ clock, log: testLog, metrics: createMetrics({ ofProcess: false }) });

function watchdog(most = 256) {
  const clock = manualClock(place.now);
  const { repository } = place;
  const admit = createAdmission(repository, clock, most);
  return { clock, recovering: createRecovering(context(clock), repository, admit) };
}

/** A task whose agent, of this type, failed just now, and whose recovery is due. */
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

describe("many at once", () => {
  test("no more are under way than may be; the others wait for a while, and are made when there is room", async () => {
    const { recovering, clock } = watchdog(4);
    const tasks = await several(4);
    const carryOn = () => Promise.all(tasks.map((one) => recovering.carryOn(one)));
    await carryOn();
    const first = await attempted(tasks);
    expect(first).toHaveLength(2);
    expect(recovering.isKeptBack(tasks[0]!)).toBe(true);
    expect(recovering.roomInMs).toBeLessThanOrEqual(1_000);

    // There is no room yet, so that trying again changes nothing.
    await clock.advance(1_000);
    expect(recovering.isKeptBack(tasks[0]!)).toBe(false);
    expect(recovering.roomInMs).toBe(Number.POSITIVE_INFINITY);
    await carryOn();
    expect(await attempted(tasks)).toEqual(first);

    // Somebody takes those, by hand.
    for (const { task } of first) await send(place.repository, "take", {}, { task, agent: "person" });
    await clock.advance(1_000);
    await carryOn();
    const second = await attempted(tasks);
    expect(second).toHaveLength(2);
    for (const one of second) expect(first).not.toContain(one);
  });

  test("agents of a type that nobody has leave room for every other one, in every watchdog", async () => {
    const missing = await several(12, "legal");
    const others = { qa: await several(4, "qa"), documentation: await several(4, "documentation") };
    // Each begins with the counts of the store alone.
    const carryOn = async (tasks: readonly DuePlace[]) => {
      const { recovering } = watchdog(12);
      await Promise.all(tasks.map((one) => recovering.carryOn(one)));
      return (await attempted(tasks)).length;
    };
    expect(await carryOn(missing)).toBe(6);
    expect(await carryOn(others.qa)).toBe(3);
    expect(await carryOn(others.documentation)).toBe(2);
    // Nor do those that wait longest get what is left.
    expect(await carryOn(missing)).toBe(6);
    expect(await carryOn([await failed("architecture")])).toBe(1);
  });

  test("the sweep finds those that have room behind any number of those that have none", async () => {
    const { recovering, clock } = watchdog(4);
    // More than a page of them.
    await several(300, "legal");
    place.now += 10;
    const other = await failed("qa");
    await clock.advance(10);
    const stop = sweepRecoveries(context(clock), place.repository, recovering);
    try {
      await expect.poll(() => stateOf(other.task), { timeout: 25_000 }).toBe("attempted");
      expect((await place.repository.recovery.counts()).attempted).toBe(3);
    } finally {
      await stop();
    }
  });

  test("while a kind has no room its tasks cost nothing, not even an attempt", async () => {
    const { recovering, clock } = watchdog(1);
    const [first, second, third] = await several(3);
    await recovering.carryOn(first!);
    await recovering.carryOn(second!);
    expect(recovering.isKeptBack(third!)).toBe(true);
    expect(recovering.isKeptBack({ ...third!, agentType: "legal" })).toBe(false);
    expect(recovering.isKeptBack({ ...third!, tenant: "acme" })).toBe(false);
    await clock.advance(1_000);
    expect(recovering.isKeptBack(third!)).toBe(false);
  });

  test("one that is carried on from two sides at once is attempted once", async () => {
    const { recovering } = watchdog();
    const other = watchdog().recovering;
    const one = await failed();
    await Promise.all([recovering, recovering, other].map((each) => each.carryOn(one)));
    expect(await place.recovery(one.task)).toMatchObject({ state: "attempted", attempts: 1 });
  });
});

test("a task without a checkpoint waits for a person", async () => {
  const { recovering } = watchdog();
  const where = { tenant: "default", task: place.fresh(), agentType: "qa" };
  await send(place.repository, "take", {}, { task: where.task });
  await place.fail(where.task);
  await recovering.carryOn(where);
  expect(await place.recovery(where.task)).toMatchObject({
    state: "blocked",
    blocked: { reason: "no_checkpoint" },
  });
  expect(recovering.isKeptBack(where)).toBe(false);
});

test("what is not due is left alone, and so is a task that there is not", async () => {
  const { recovering } = watchdog();
  const one = await failed();
  await recovering.carryOn(one);
  const before = await place.recovery(one.task);
  await recovering.carryOn(one);
  await recovering.carryOn({ tenant: "default", task: "none" });
  expect(await place.recovery(one.task)).toEqual(before);
});

test("while the store is away nothing is made, and the task is kept back, longer and longer", async () => {
  const { recovering, clock } = watchdog();
  const one = await failed();
  await place.store.close({ drainMs: 0 });
  await recovering.carryOn(one);
  expect(recovering.isKeptBack(one)).toBe(true);
  await clock.advance(500);
  expect(recovering.isKeptBack(one)).toBe(false);
  for (let times = 0; times < 5; times += 1) await recovering.carryOn(one);
  await clock.advance(4_000);
  expect(recovering.isKeptBack(one)).toBe(true);
});
