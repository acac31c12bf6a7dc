/** The seed determines the plan; the plan keeps to its duration and its targets and has every possible kind of fault. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { FAULT_KINDS, planFaults } from "./plan.ts";

const targets = Object.fromEntries(FAULT_KINDS.map((kind) => [kind, [`${kind}-1`, `${kind}-2`]]));

test("the seed determines the plan", () => {
  const plan = (seed: number) => planFaults({ seed, durationMs: 60_000, targets });
  expect(plan(7)).toEqual(plan(7));
  expect(plan(7)).not.toEqual(plan(8));
});

test("faults begin and end within the duration and have existing targets", () => {
  fc.assert(
    fc.property(fc.nat(), fc.integer({ min: 3_000, max: 600_000 }), (seed, durationMs) => {
      const plan = planFaults({ seed, durationMs, targets });
      const isValid = plan.every(
        ({ atMs, lastsMs, kind, target }) =>
          atMs + lastsMs <= durationMs + 1 && targets[kind]?.includes(target),
      );
      expect(isValid).toBe(true);
      expect(plan.map(({ atMs }) => atMs)).toEqual(plan.map(({ atMs }) => atMs).sort((a, b) => a - b));
    }),
  );
});

test("half a minute has every kind of fault", () => {
  for (let seed = 0; seed < 50; seed += 1) {
    const plan = planFaults({ seed, durationMs: 30_000, targets });
    expect(new Set(plan.map(({ kind }) => kind)).size).toBe(FAULT_KINDS.length);
  }
});

test("a kind without a target does not occur", () => {
  const plan = planFaults({ seed: 1, durationMs: 60_000, targets: { kill_nats: ["nats"], disk_full: [] } });
  expect(new Set(plan.map(({ kind }) => kind))).toEqual(new Set(["kill_nats"]));
  expect(planFaults({ seed: 1, durationMs: 60_000, targets: {} })).toEqual([]);
});
