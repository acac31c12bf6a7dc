// The table of handoffs, pair by pair, and the policy that sets the next agent type and the deadlines.

import { describe, expect, test } from "vitest";
import { nextAgentType } from "../../../shared/lifecycle/routing.ts";
import { createCommandSchema, handoffCommandSchema } from "../../../shared/protocol/commands.ts";
import {
  HANDOFF_EVENTS,
  HANDOFF_STATES,
  HANDOFF_TABLE,
  type HandoffEvent,
  type HandoffState,
  isOpenHandoff,
} from "../../../shared/protocol/handoff-states.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { promptSchema } from "../../../shared/protocol/offer.ts";
import { DEFAULT_POLICIES, DEFAULT_POLICY, policyOf, policySchema } from "../../../shared/protocol/policy.ts";
import {
  offerConsumer,
  parseExitSubject,
  parseHeartbeatSubject,
  SUBJECTS,
} from "../../../shared/protocol/subjects.ts";
import { validate } from "../../../shared/protocol/validation.ts";

/** Every allowed transition; all others are refused. */
const allowed: Record<HandoffState, Partial<Record<HandoffEvent, HandoffState>>> = {
  requested: { validate: "validated", reject: "rejected", cancel: "cancelled", supersede: "cancelled" },
  validated: { offer: "offered", escalate: "escalated", cancel: "cancelled", supersede: "cancelled" },
  offered: {
    offer: "offered",
    acknowledge: "accepted",
    escalate: "escalated",
    cancel: "cancelled",
    supersede: "cancelled",
  },
  accepted: { confirm: "confirmed", lapse: "lapsed", supersede: "cancelled" },
  confirmed: {},
  rejected: {},
  escalated: {},
  cancelled: {},
  lapsed: {},
};

describe("handoff table", () => {
  const pairs = HANDOFF_STATES.flatMap((state) => HANDOFF_EVENTS.map((event) => [state, event] as const));

  test.each(pairs)("%s + %s", (state, event) => {
    expect(HANDOFF_TABLE[state][event]).toBe(allowed[state][event] ?? null);
  });

  test("has exactly these states and events", () => {
    expect(Object.keys(HANDOFF_TABLE).sort()).toEqual([...HANDOFF_STATES].sort());
    for (const row of Object.values(HANDOFF_TABLE))
      expect(Object.keys(row).sort()).toEqual([...HANDOFF_EVENTS].sort());
  });

  test("every state is reachable from requested, open states have transitions and ended states have none", () => {
    const reached = new Set<HandoffState>(["requested"]);
    for (const state of reached)
      for (const next of Object.values(HANDOFF_TABLE[state])) if (next) reached.add(next);
    expect([...reached].sort()).toEqual([...HANDOFF_STATES].sort());
    const open = HANDOFF_STATES.filter(isOpenHandoff);
    expect(open).toEqual(["requested", "validated", "offered", "accepted"]);
    for (const state of HANDOFF_STATES) {
      const transitions = Object.values(HANDOFF_TABLE[state]).filter((next) => next !== null);
      expect(transitions.length > 0).toBe(isOpenHandoff(state));
    }
  });
});

describe("policy", () => {
  test("an empty policy is the default, for every tenant and type", () => {
    expect(policyOf(DEFAULT_POLICIES, "default", "qa")).toEqual(DEFAULT_POLICY);
    expect(policyOf(DEFAULT_POLICIES, "constructor", "toString")).toEqual(DEFAULT_POLICY);
    expect(policySchema.parse({})).toEqual(DEFAULT_POLICIES);
  });

  test("the most specific value counts, part by part", () => {
    const policies = policySchema.parse({
      defaults: { triggers: { error_count: 9 }, first_checkpoint_ms: 60_000 },
      tenants: {
        clinic: {
          defaults: { offer: { max_attempts: 5 }, next_agent: { by_next_phase: { testing: "nurse" } } },
          agent_types: { qa: { triggers: { context_utilization: null }, offer: { deadline_ms: 5_000 } } },
        },
      },
    });
    expect(policyOf(policies, "other", "qa")).toEqual({
      ...DEFAULT_POLICY,
      triggers: { ...DEFAULT_POLICY.triggers, error_count: 9 },
      first_checkpoint_ms: 60_000,
    });
    const qa = policyOf(policies, "clinic", "qa");
    expect(qa.triggers).toEqual({ ...DEFAULT_POLICY.triggers, error_count: 9, context_utilization: null });
    expect(qa.offer).toEqual({ ...DEFAULT_POLICY.offer, max_attempts: 5, deadline_ms: 5_000 });
    expect(qa.next_agent.by_next_phase).toMatchObject({ testing: "nurse", reviewing: "qa" });
    expect(policyOf(policies, "clinic", "implementation").triggers.context_utilization).toBe(0.7);
  });

  test.each([
    [{ default: {} }, "default"],
    [{ defaults: { offer: { max_atempts: 2 } } }, "defaults.offer.max_atempts"],
    [{ defaults: { triggers: { context_utilization: 70 } } }, "defaults.triggers.context_utilization"],
    [{ tenants: { "a b": {} } }, "tenants.a b"],
    [{ defaults: { offer: { deadline_ms: 10 } } }, "defaults.offer.deadline_ms"],
  ])("%j is refused, and the error names the wrong field", (policies, path) => {
    expect(() => validate(policySchema, policies)).toThrow(
      expect.objectContaining({ code: "INVALID", fields: [expect.objectContaining({ path })] }),
    );
  });

  test.each([
    ["implementation", null, "implementation"],
    ["implementation", "testing", "qa"],
    ["qa", "planning", "architecture"],
    ["qa", "complete", "qa"],
    ["painter", "toString", "painter"],
  ])("after %s, the next agent for phase %s is of type %s", (from, phase, next) => {
    expect(nextAgentType({ tenant: "default", from, nextPhase: phase }, DEFAULT_POLICIES)).toBe(next);
  });
});

describe("validation at the edges", () => {
  const checkpoint = (phase: string) => ({
    command_id: "019bef8e-9f68-7a31-b5c4-0d6e2f9a1b08",
    checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase } },
    handoff: { to_agent_type: "qa" },
  });

  test("a create has fields of a handoff only when it opens one", () => {
    expect(createCommandSchema.safeParse(checkpoint("handoff")).success).toBe(true);
    expect(() => validate(createCommandSchema, checkpoint("testing"))).toThrow(
      expect.objectContaining({ fields: [expect.objectContaining({ path: "handoff" })] }),
    );
  });

  test.each([
    ["to_agent_type", { to_agent_type: "q.a" }],
    ["next_phase", { next_phase: "handoff" }],
    ["reason", { reason: "x".repeat(LIMITS.handoff_reason_chars_max + 1) }],
  ])("an invalid %s is named in the error", (path, fields) => {
    const { command_id } = checkpoint("handoff");
    expect(() => validate(handoffCommandSchema, { command_id, ...fields })).toThrow(
      expect.objectContaining({ fields: [expect.objectContaining({ path })] }),
    );
  });

  test("a prompt is measured in bytes, not in characters", () => {
    expect(promptSchema.safeParse("x".repeat(LIMITS.prompt_bytes_max)).success).toBe(true);
    expect(promptSchema.safeParse("ä".repeat(LIMITS.prompt_bytes_max / 2 + 1)).success).toBe(false);
  });

  test("two pairs of tenant and agent type never share a consumer name", () => {
    expect(offerConsumer("a-b", "c")).not.toBe(offerConsumer("a", "b-c"));
    expect(() => offerConsumer("a=b", "c")).toThrow();
  });

  test("a parsed subject gives the values that it was made from", () => {
    expect(parseHeartbeatSubject(SUBJECTS.heartbeat("t", "a"))).toEqual({ tenant: "t", agent: "a" });
    expect(parseExitSubject(SUBJECTS.exit("t", "a", "x"))).toEqual({ tenant: "t", agent: "a", task: "x" });
    expect(() => parseHeartbeatSubject("fleet.heartbeat.t.*")).toThrow();
    expect(SUBJECTS.offersOf("t", "qa")).toBe("fleet.offer.t.qa.*");
  });
});
