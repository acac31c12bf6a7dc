/** Whose word counts when an agent watches its own signs: its own thresholds, the writer's advice, the defaults. */
import { describe, expect, test } from "vitest";
import type { TriggerSigns } from "../../../shared/protocol/triggers.ts";
import { TriggerMonitor } from "../../../shared/sdk/agent/trigger-monitor.ts";

const signs = (contextUtilization: number, changes: Partial<TriggerSigns> = {}): TriggerSigns => ({
  contextUtilization,
  isRateLimited: false,
  isPhaseComplete: false,
  isRequested: false,
  ...changes,
});
const over = (value: number, threshold = 0.7) => ({ reason: "context_utilization", threshold, value });
const wish = { reason: "explicit_request" };

describe("without thresholds of its own", () => {
  test("the writer is asked once when a default is passed, and decides", () => {
    const monitor = new TriggerMonitor();
    expect(monitor.toAsk(signs(0.5))).toBeUndefined();
    expect(monitor.toAsk(signs(0.8))).toEqual(over(0.8));
    expect(monitor.fired(signs(0.8))).toEqual([]);
    monitor.heard({ outcome: "committed" });
    expect(monitor.fired(signs(0.8))).toEqual([]);
    expect(monitor.toAsk(signs(0.9))).toBeUndefined();
    expect(monitor.toAsk(signs(0.9, { errorCount: 6 }))).toMatchObject({ reason: "error_count" });
    monitor.heard({ outcome: "committed", handoffAdvised: [over(0.9, 0.85)] });
    expect(monitor.fired(signs(0.9))).toEqual([over(0.9, 0.85)]);
  });

  test("a stricter policy counts before any default is passed", () => {
    const monitor = new TriggerMonitor();
    monitor.heard({ outcome: "committed", handoffAdvised: [over(0.4, 0.3)] });
    expect(monitor.fired(signs(0.4))).toEqual([over(0.4, 0.3)]);
  });

  test.each(["queued", "spooled"] as const)("the defaults count while a checkpoint is only %s", (outcome) => {
    const monitor = new TriggerMonitor();
    monitor.heard({ outcome });
    expect(monitor.fired(signs(0.6))).toEqual([]);
    expect(monitor.fired(signs(0.8))).toEqual([over(0.8)]);
    monitor.heard({ outcome: "committed" });
    expect(monitor.fired(signs(0.8))).toEqual([]);
  });

  test("a wish needs nobody's word", () => {
    const monitor = new TriggerMonitor();
    expect(monitor.fired(signs(0.8, { isRequested: true }))).toEqual([wish]);
  });
});

test("thresholds of its own count at once, and nobody else's", () => {
  const monitor = new TriggerMonitor({ context_utilization: 0.5 });
  expect(monitor.fired(signs(0.6))).toEqual([over(0.6, 0.5)]);
  expect(monitor.toAsk(signs(0.9))).toBeUndefined();
  monitor.heard({ outcome: "committed", handoffAdvised: [over(0.4, 0.3)] });
  expect(monitor.fired(signs(0.4))).toEqual([]);
  expect(monitor.fired(signs(0.4, { errorCount: 6 }))).toMatchObject([{ reason: "error_count" }]);
});
