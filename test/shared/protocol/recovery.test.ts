// The recovery actions of each failure class, and the fields of a request for a recovery.

import { describe, expect, test } from "vitest";
import { recoverCommandSchema } from "../../../shared/protocol/commands.ts";
import { FAILURE_CLASSES, type FailureClass } from "../../../shared/protocol/exit-report.ts";
import { DEFAULT_POLICY, policyOf, policySchema } from "../../../shared/protocol/policy.ts";
import {
  DEFAULT_ACTIONS,
  RECOVERY_ACTIONS,
  type RecoveryAction,
} from "../../../shared/protocol/recovery-states.ts";
import { validate } from "../../../shared/protocol/validation.ts";

const actions: Record<FailureClass, RecoveryAction[]> = {
  completed: ["retry", "back_off"],
  crash: ["retry", "back_off"],
  timeout: ["retry", "back_off"],
  out_of_memory: ["back_off"],
  rate_limit: ["after_reset"],
  context_exhausted: ["retry", "back_off"],
  tool_error: ["back_off"],
  corrupt_state: ["previous_checkpoint"],
  unrecoverable: ["block"],
  not_started: ["back_off"],
};

describe("actions after a failure", () => {
  test.each(FAILURE_CLASSES)("%s", (failureClass) => {
    expect(DEFAULT_ACTIONS[failureClass]).toEqual(actions[failureClass]);
    expect(DEFAULT_POLICY.recovery.actions[failureClass]).toEqual(actions[failureClass]);
  });

  test("every class has actions, and every action but another agent type is in use", () => {
    expect(Object.keys(DEFAULT_ACTIONS).sort()).toEqual([...FAILURE_CLASSES].sort());
    const used = new Set(Object.values(DEFAULT_ACTIONS).flat());
    expect(RECOVERY_ACTIONS.filter((action) => !used.has(action))).toEqual(["other_agent_type"]);
  });

  test("the policy overrides the actions class by class", () => {
    const policies = validate(policySchema, {
      defaults: { recovery: { actions: { crash: ["block"] }, silence_ms: 3_000 } },
      tenants: { acme: { agent_types: { qa: { recovery: { other_agent_type: { qa: "qa-2" } } } } } },
    });
    const { recovery } = policyOf(policies, "acme", "qa");
    expect(recovery.actions).toEqual({ ...DEFAULT_ACTIONS, crash: ["block"] });
    expect(recovery).toMatchObject({ silence_ms: 3_000, other_agent_type: { qa: "qa-2" }, attempts: 3 });
  });

  test.each([
    ["an unknown action", { actions: { crash: ["restart"] } }],
    ["no action", { actions: { crash: [] } }],
    ["an unknown class", { actions: { sadness: ["retry"] } }],
    ["no attempt", { attempts: 0 }],
    ["a silence timeout under a second", { silence_ms: 10 }],
    ["a misspelt name", { atempts: 3 }],
  ])("a policy with %s is refused", (_what, recovery) => {
    expect(() => validate(policySchema, { defaults: { recovery } })).toThrow(/not valid/);
  });
});

describe("a request for a recovery", () => {
  const command_id = "01890000-0000-7000-8000-000000000001";

  test("neither resets nor forces by default", () => {
    expect(validate(recoverCommandSchema, { command_id })).toEqual({
      command_id,
      reset: false,
      force: false,
    });
  });

  test.each([
    ["a checkpoint that is not an id", { checkpoint_id: "latest" }],
    ["an agent type that is not a token", { to_agent_type: "a b" }],
    ["a reason that is too long", { reason: "x".repeat(100_000) }],
    ["force that is not a boolean", { force: "yes" }],
  ])("%s is refused", (_what, fields) => {
    expect(() => validate(recoverCommandSchema, { command_id, ...fields })).toThrow(/not valid/);
  });
});
