/** The agent loop's checkpoint policy, with a manual clock. */
import { expect, test } from "vitest";
import {
  CheckpointPolicy,
  type Occasion,
} from "../../../../shared/sdk/agent/checkpoints/checkpoint-policy.ts";
import { manualClock } from "../../../harness/clock.ts";

const MINUTE = 60_000;

test("seed 003 US-001: a checkpoint is due after a number of completed steps that is configured, by default 3; each written one restarts the count", () => {
  for (const rules of [{}, { items: 3 }, { items: 5 }]) {
    const configured = new CheckpointPolicy(rules, manualClock());
    const due = Array.from({ length: 5 }, () => configured.due("item"));
    expect(due.indexOf("progress")).toBe((rules.items ?? 3) - 1);
  }
  const policy = new CheckpointPolicy({ items: 3 }, manualClock());
  const items = (count: number) => Array.from({ length: count }, () => policy.due("item"));
  expect(items(3)).toEqual([null, null, "progress"]);
  // It could not be written: due again with the next item.
  expect(items(1)).toEqual(["progress"]);
  policy.written();
  expect(items(3)).toEqual([null, null, "progress"]);
});

test.each<[Occasion, string]>([
  ["phase", "phase_transition"],
  ["long_operation", "before_long_operation"],
  ["priority_message", "priority_message"],
  ["error", "error"],
])(
  "seed 004 mandatory, and seed 003 on failure: a checkpoint is always due on the occasion %s",
  (occasion, reason) => {
    const policy = new CheckpointPolicy({}, manualClock());
    expect(policy.due(occasion)).toBe(reason);
    policy.written();
    expect(policy.due(occasion)).toBe(reason);
  },
);

test("seed 004 mandatory: a checkpoint is due after every 10 minutes of work, if anything has changed", async () => {
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

test("an item after that time makes the periodic checkpoint due", async () => {
  const clock = manualClock();
  const policy = new CheckpointPolicy({ items: 100, everyMs: MINUTE }, clock);
  expect(policy.due("item")).toBeNull();
  await clock.advance(MINUTE);
  expect(policy.due("item")).toBe("periodic");
});
