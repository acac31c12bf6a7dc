import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { successRateOf } from "../../../services/coordinator/handoff-gauges.ts";
import { readFailedAcceptances, readHandoffCounts } from "../../../shared/records/kv/counters.ts";
import { ENGINES, send } from "../../harness/records/records.ts";
import { TestTasks } from "../../harness/records/tasks.ts";

const NONE = {
  requested: 0,
  validated: 0,
  offered: 0,
  accepted: 0,
  confirmed: 0,
  rejected: 0,
  escalated: 0,
  cancelled: 0,
  lapsed: 0,
};

test("the rate is unknown until a handoff has succeeded or failed", () => {
  expect(successRateOf(NONE, 0)).toBeNull();
  expect(successRateOf({ ...NONE, accepted: 2, cancelled: 3 }, 0)).toBeNull();
});

test("a cancelled handoff does not lower the rate, and every failed one does", () => {
  expect(successRateOf({ ...NONE, confirmed: 2, cancelled: 5, offered: 7 }, 0)).toBe(1);
  expect(successRateOf({ ...NONE, confirmed: 1, rejected: 1, escalated: 1, lapsed: 1 }, 0)).toBe(0.25);
});

describe.each(ENGINES)("on %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  const rate = () =>
    place.store.read({ label: "test", deadlineMs: 5_000 }, async (reader) =>
      successRateOf(await readHandoffCounts(reader), await readFailedAcceptances(reader)),
    );

  test("an accepted handoff whose agent fails before its first checkpoint lowers the rate", async () => {
    const { task } = await place.accepted();
    await place.write(task, "taker", {});
    expect(await rate()).toBe(1);
    const { task: failed, id } = await place.accepted();
    await place.fail(failed, { agent_id: "taker", agent_type: "qa" });
    expect(await place.handoff(id)).toMatchObject({
      state: "cancelled",
      failure: { reason: "agent_failed" },
    });
    expect(await rate()).toBe(0.5);
  });

  test("an accepted handoff whose task is taken by another agent does not lower the rate", async () => {
    const { task, id } = await place.accepted();
    await send(place.repository, "take", {}, { task, agent: "operator" });
    expect(await place.handoff(id)).toMatchObject({ state: "cancelled", failure: { reason: "taken" } });
    expect(await rate()).toBeNull();
  });
});
