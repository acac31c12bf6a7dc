/** Which thresholds decide: the agent's own, the writer's advice, or the defaults. */
import { describe, expect, test } from "vitest";
import type { TriggerSigns } from "../../../../../shared/protocol/triggers.ts";
import { TriggerMonitor } from "../../../../../shared/sdk/agent/triggers/trigger-monitor.ts";

const signs = (contextUtilization: number, changes: Partial<TriggerSigns> = {}): TriggerSigns => ({
  contextUtilization,
  isRateLimited: false,
  isPhaseComplete: false,
  isRequested: false,
  ...changes,
});
const over = (value: number, threshold = 0.7) => ({ reason: "context_utilization", threshold, value });
const requested = { reason: "explicit_request" };

describe("without thresholds of its own", () => {
  test("a sign over a default threshold is submitted to the writer once, and the writer decides", () => {
    const monitor = new TriggerMonitor();
    expect(monitor.unjudged(signs(0.5))).toBeUndefined();
    expect(monitor.unjudged(signs(0.8))).toEqual(over(0.8));
    expect(monitor.fired(signs(0.8))).toEqual([]);
    monitor.judged({ outcome: "committed" });
    expect(monitor.fired(signs(0.8))).toEqual([]);
    expect(monitor.unjudged(signs(0.9))).toBeUndefined();
    expect(monitor.unjudged(signs(0.9, { errorCount: 6 }))).toMatchObject({ reason: "error_count" });
    monitor.judged({ outcome: "committed", handoffAdvised: [over(0.9, 0.85)] });
    expect(monitor.fired(signs(0.9))).toEqual([over(0.9, 0.85)]);
  });

  test("a stricter policy decides before a sign passes a default", () => {
    const monitor = new TriggerMonitor();
    monitor.judged({ outcome: "committed", handoffAdvised: [over(0.4, 0.3)] });
    expect(monitor.fired(signs(0.4))).toEqual([over(0.4, 0.3)]);
  });

  test.each(["queued", "spooled"] as const)(
    "the defaults decide while a checkpoint is only %s",
    (outcome) => {
      const monitor = new TriggerMonitor();
      monitor.judged({ outcome });
      expect(monitor.fired(signs(0.6))).toEqual([]);
      expect(monitor.fired(signs(0.8))).toEqual([over(0.8)]);
      monitor.judged({ outcome: "committed" });
      expect(monitor.fired(signs(0.8))).toEqual([]);
    },
  );

  test("an explicit request needs no judgement", () => {
    const monitor = new TriggerMonitor();
    expect(monitor.fired(signs(0.8, { isRequested: true }))).toEqual([requested]);
  });
});

test("its own thresholds decide at once, and alone", () => {
  const monitor = new TriggerMonitor({ context_utilization: 0.5 });
  expect(monitor.fired(signs(0.6))).toEqual([over(0.6, 0.5)]);
  expect(monitor.unjudged(signs(0.9))).toBeUndefined();
  monitor.judged({ outcome: "committed", handoffAdvised: [over(0.4, 0.3)] });
  expect(monitor.fired(signs(0.4))).toEqual([]);
  expect(monitor.fired(signs(0.4, { errorCount: 6 }))).toMatchObject([{ reason: "error_count" }]);
});
