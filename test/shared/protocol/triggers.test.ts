// Handoff triggers: each one against its threshold, and the trigger values of a checkpoint.

import { describe, expect, test } from "vitest";
import {
  type CheckpointInput,
  checkpointInputSchema,
  type UnsealedCheckpoint,
} from "../../../shared/protocol/checkpoint.ts";
import { DEFAULT_POLICY } from "../../../shared/protocol/policy.ts";
import {
  evaluateTriggers,
  HANDOFF_TRIGGERS,
  signsOf,
  type TriggerSigns,
  type TriggerThresholds,
} from "../../../shared/protocol/triggers.ts";

const none: TriggerSigns = { isRateLimited: false, isPhaseComplete: false, isRequested: false };
const all: TriggerSigns = {
  contextUtilization: 0.9,
  errorCount: 9,
  isRateLimited: true,
  isPhaseComplete: true,
  isRequested: true,
};
const defaults = DEFAULT_POLICY.triggers;
const off: TriggerThresholds = {
  context_utilization: null,
  error_count: null,
  rate_limit: false,
  phase_complete: false,
};

describe("fired triggers", () => {
  test.each<[string, Partial<TriggerSigns>, Partial<TriggerThresholds>, object[]]>([
    ["nothing", {}, {}, []],
    ["context at the threshold", { contextUtilization: 0.7 }, {}, []],
    [
      "context over the threshold",
      { contextUtilization: 0.71 },
      {},
      [{ reason: "context_utilization", value: 0.71, threshold: 0.7 }],
    ],
    ["context under another threshold", { contextUtilization: 0.71 }, { context_utilization: 0.9 }, []],
    [
      "context over a threshold of zero",
      { contextUtilization: 0.01 },
      { context_utilization: 0 },
      [{ reason: "context_utilization", value: 0.01, threshold: 0 }],
    ],
    ["a full context without a threshold", { contextUtilization: 1 }, { context_utilization: null }, []],
    [
      "context at the threshold after the next step",
      { contextUtilization: 0.5, expectedUtilization: 0.7 },
      {},
      [],
    ],
    [
      "context over the threshold after the next step",
      { contextUtilization: 0.5, expectedUtilization: 0.8 },
      {},
      [{ reason: "context_utilization", value: 0.5, expected: 0.8, threshold: 0.7 }],
    ],
    [
      "context over the threshold already",
      { contextUtilization: 0.75, expectedUtilization: 0.9 },
      {},
      [{ reason: "context_utilization", value: 0.75, threshold: 0.7 }],
    ],
    ["errors at the threshold", { errorCount: 5 }, {}, []],
    ["errors over the threshold", { errorCount: 6 }, {}, [{ reason: "error_count", value: 6, threshold: 5 }]],
    [
      "errors over another threshold",
      { errorCount: 2 },
      { error_count: 1 },
      [{ reason: "error_count", value: 2, threshold: 1 }],
    ],
    ["errors without a threshold", { errorCount: 1_000 }, { error_count: null }, []],
    ["a rate limit", { isRateLimited: true }, {}, [{ reason: "rate_limit" }]],
    ["a rate limit with the trigger off", { isRateLimited: true }, { rate_limit: false }, []],
    ["the end of a phase", { isPhaseComplete: true }, {}, [{ reason: "phase_complete" }]],
    ["the end of a phase with the trigger off", { isPhaseComplete: true }, { phase_complete: false }, []],
    ["a request", { isRequested: true }, {}, [{ reason: "explicit_request" }]],
  ])("%s", (_, signs, thresholds, expected) => {
    expect(evaluateTriggers({ ...none, ...signs }, { ...defaults, ...thresholds })).toEqual(expected);
  });

  test("all triggers at once, in a fixed order", () => {
    expect(evaluateTriggers(all, defaults).map(({ reason }) => reason)).toEqual([...HANDOFF_TRIGGERS]);
  });

  test("with all thresholds off, only a request", () => {
    expect(evaluateTriggers(all, off)).toEqual([{ reason: "explicit_request" }]);
  });
});

describe("the trigger values of a checkpoint", () => {
  const signs = (metrics: CheckpointInput["metrics"], reason = "progress") => {
    const parsed = checkpointInputSchema.parse({
      metadata: { agent_type: "qa", trigger: { reason } },
      execution_state: { phase: "testing" },
      metrics,
    });
    return signsOf(parsed as unknown as UnsealedCheckpoint);
  };

  test.each<[string, CheckpointInput["metrics"], number | undefined]>([
    ["its tokens divided by its limit", { context_tokens: 150, context_limit: 200 }, 0.75],
    ["never the total of the iteration", { tokens_consumed: 150, context_limit: 200 }, undefined],
    ["or else as reported", { context_utilization: 0.5, tokens_consumed: 9, context_limit: 10 }, 0.5],
    [
      "not as reported if both are known",
      { context_utilization: 0.5, context_tokens: 9, context_limit: 10 },
      0.9,
    ],
    ["over its limit", { context_tokens: 500, context_limit: 200 }, 2.5],
    ["nothing without a limit", { context_tokens: 500 }, undefined],
    ["nothing for a limit of zero", { context_tokens: 500, context_limit: 0 }, undefined],
  ])("context: %s", (_, metrics, expected) => {
    expect(signs(metrics).contextUtilization).toBe(expected);
  });

  test.each<[string, CheckpointInput["metrics"], number | undefined]>([
    ["one step ahead", { context_tokens: 120, context_step_tokens: 60, context_limit: 200 }, 0.9],
    ["over its limit", { context_tokens: 190, context_step_tokens: 60, context_limit: 200 }, 1.25],
    ["nothing without a step", { context_tokens: 120, context_limit: 200 }, undefined],
    ["nothing without the tokens", { context_step_tokens: 60, context_limit: 200 }, undefined],
  ])("expected context: %s", (_, metrics, expected) => {
    expect(signs(metrics).expectedUtilization).toBe(expected);
  });

  test("expected context: nothing once all items are completed", () => {
    const metrics = { context_tokens: 120, context_step_tokens: 60, context_limit: 200 };
    const expected = (execution_state: object) =>
      signsOf(
        checkpointInputSchema.parse({
          metadata: { agent_type: "qa" },
          execution_state: { phase: "testing", ...execution_state },
          metrics,
        }) as unknown as UnsealedCheckpoint,
      ).expectedUtilization;
    expect(expected({ completed_items: ["a"], pending_items: [] })).toBeUndefined();
    expect(expected({ completed_items: ["a"], pending_items: ["b"] })).toBe(0.9);
    expect(expected({})).toBe(0.9);
  });

  test("errors and rate limit", () => {
    expect(signs({})).toMatchObject({ errorCount: undefined, isRateLimited: false });
    expect(signs({ error_count: 3 }).errorCount).toBe(3);
    expect(signs({ rate_limit: {} }).isRateLimited).toBe(true);
    expect(signs({ rate_limit: { resets_at: "2026-01-24T12:00:00Z" } }).isRateLimited).toBe(true);
  });

  test("phase and request", () => {
    expect(signs({})).toMatchObject({ isPhaseComplete: false, isRequested: false });
    expect(signs({}, "phase_transition")).toMatchObject({ isPhaseComplete: true, isRequested: false });
    expect(signs({}, "handoff")).toMatchObject({ isPhaseComplete: false, isRequested: true });
    expect(signs({}, "task_complete")).toMatchObject({ isPhaseComplete: false, isRequested: false });
  });
});
