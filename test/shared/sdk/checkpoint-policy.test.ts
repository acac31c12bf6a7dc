/** The loop's policy against a clock that is moved by hand. */
import { expect, test } from "vitest";
import { CheckpointPolicy, type Occasion } from "../../../shared/sdk/agent/checkpoint-policy.ts";
import { manualClock } from "../../harness/clock.ts";

const MINUTE = 60_000;

test("a checkpoint is due after so many items, and the count begins anew with each that is written", () => {
  const policy = new CheckpointPolicy({ items: 3 }, manualClock());
  const items = (count: number) => Array.from({ length: count }, () => policy.due("item"));
  expect(items(3)).toEqual([null, null, "progress"]);
  // Not written, because it failed: due again with the next one.
  expect(items(1)).toEqual(["progress"]);
  policy.written();
  expect(items(3)).toEqual([null, null, "progress"]);
});

test.each<[Occasion, string]>([
  ["phase", "phase_transition"],
  ["long_operation", "before_long_operation"],
  ["error", "error"],
])("%s always asks for one", (occasion, reason) => {
  const policy = new CheckpointPolicy({}, manualClock());
  expect(policy.due(occasion)).toBe(reason);
  policy.written();
  expect(policy.due(occasion)).toBe(reason);
});

test("after ten minutes, if there is anything new", async () => {
  const clock = manualClock();
  const policy = new CheckpointPolicy({}, clock);
  await clock.advance(10 * MINUTE);
  expect(policy.due("time")).toBeNull();
  policy.changed();
  expect(policy.due("time")).toBe("periodic");
  policy.written();
  policy.changed();
  expect([policy.due("time"), policy.untilPeriodicMs()]).toEqual([null, 10 * MINUTE]);
  await clock.advance(10 * MINUTE - 1);
  expect([policy.due("time"), policy.untilPeriodicMs()]).toEqual([null, 1]);
  await clock.advance(1);
  expect([policy.due("time"), policy.untilPeriodicMs()]).toEqual(["periodic", 0]);
});

test("an item that comes after that time counts as the occasion", async () => {
  const clock = manualClock();
  const policy = new CheckpointPolicy({ items: 100, everyMs: MINUTE }, clock);
  expect(policy.due("item")).toBeNull();
  await clock.advance(MINUTE);
  expect(policy.due("item")).toBe("periodic");
});
