// Recoveries carried on over a real store: no more at once than the setting says, none twice, and none for ever.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createAdmission } from "../../../services/watchdog/admission.ts";
import { createRecovering } from "../../../services/watchdog/recovering.ts";
import { createMetrics } from "../../../shared/runtime/metrics.ts";
import { manualClock } from "../../harness/clock.ts";
import { testLog } from "../../harness/nats.ts";
import { send } from "../../harness/records.ts";
import { RecoveryPlace } from "../../harness/recoveries.ts";

let place: RecoveryPlace;
beforeEach(async () => {
  place = await RecoveryPlace.open("memory");
});
afterEach(() => place.bench.close());

function watchdog(most = 256) {
  const clock = manualClock(place.now);
  const { repository } = place;
  const admit = createAdmission(repository, clock, most);
  const context = { clock, log: testLog, metrics: createMetrics({ ofProcess: false }) };
  return { clock, recovering: createRecovering(context, repository, admit) };
}

/** A task whose agent failed just now, and whose recovery is due. */
async function failed(): Promise<{ tenant: string; task: string }> {
  const task = await place.owned();
  expect(await place.fail(task)).toMatchObject({ applied: true });
  return { tenant: "default", task };
}

const stateOf = async (task: string): Promise<string> => (await place.recovery(task)).state;

describe("many at once", () => {
  test("no more are under way than may be; the others wait for a while, and are made when there is room", async () => {
    const { recovering, clock } = watchdog(2);
    const tasks = await Promise.all([1, 2, 3, 4].map(failed));
    await Promise.all(tasks.map((one) => recovering.carryOn(one)));
    const states = async () => Promise.all(tasks.map(({ task }) => stateOf(task)));
    expect((await states()).toSorted()).toEqual(["attempted", "attempted", "waiting", "waiting"]);
    const before = await states();
    const waiting = tasks.filter((_, i) => before[i] === "waiting");
    expect(recovering.fullForMs).toBeGreaterThan(0);

    // There is no room yet, so that trying again changes nothing.
    await clock.advance(1_000);
    expect(recovering.fullForMs).toBe(0);
    await Promise.all(waiting.map((one) => recovering.carryOn(one)));
    expect(await states()).toEqual(before);
    expect(recovering.fullForMs).toBeGreaterThan(0);

    // Somebody takes those, by hand.
    for (const { task } of tasks.filter((_, i) => before[i] === "attempted"))
      await send(place.repository, "take", {}, { task, agent: "person" });
    await clock.advance(1_000);
    await Promise.all(waiting.map((one) => recovering.carryOn(one)));
    for (const { task } of waiting) expect(await stateOf(task)).toBe("attempted");
  });

  test("while there is no room a task costs nothing, not even a look at it", async () => {
    const { recovering, clock } = watchdog(1);
    const [first, second, third] = await Promise.all([1, 2, 3].map(failed));
    await recovering.carryOn(first!);
    await recovering.carryOn(second!);
    expect(recovering.fullForMs).toBeGreaterThan(0);
    // Whoever looked would find the store away, and keep the task back.
    await place.bench.store.close({ drainMs: 0 });
    await recovering.carryOn(third!);
    expect(recovering.isKeptBack(third!)).toBe(false);
    await clock.advance(1_000);
    await recovering.carryOn(third!);
    expect(recovering.isKeptBack(third!)).toBe(true);
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
  const where = { tenant: "default", task: place.fresh() };
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
  await place.bench.store.close({ drainMs: 0 });
  await recovering.carryOn(one);
  expect(recovering.isKeptBack(one)).toBe(true);
  await clock.advance(500);
  expect(recovering.isKeptBack(one)).toBe(false);
  for (let times = 0; times < 5; times += 1) await recovering.carryOn(one);
  await clock.advance(4_000);
  expect(recovering.isKeptBack(one)).toBe(true);
});
