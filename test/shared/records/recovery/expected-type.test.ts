// The type of the next attempt, as far as the head of a task decides it.

import { expect, test } from "vitest";
import { expectedRecoveryType } from "../../../../shared/lifecycle/routing.ts";
import { type Budget, WHOLE_BUDGET } from "../../../../shared/lifecycle/task.ts";

type Facts = Parameters<typeof expectedRecoveryType>[0];

const head: Facts = {
  completion_seq: null,
  seq: 3,
  agent_type: "qa",
  phase: "testing",
  latest_id: "newest",
  budget: WHOLE_BUDGET,
};

const chosen = (choice: Partial<NonNullable<Budget["choice"]>>, rung: Budget["rung"] = "latest"): Budget => ({
  ...WHOLE_BUDGET,
  rung,
  choice: { checkpoint_id: null, to_agent_type: null, reason: null, by: null, ...choice },
});

test.each<[string, Partial<Facts>, string | null]>([
  ["the author's type without a choice", {}, "qa"],
  ["the author's type without a budget", { budget: null }, "qa"],
  ["the chosen type", { budget: chosen({ to_agent_type: "writer" }) }, "writer"],
  ["the chosen type on another rung", { budget: chosen({ to_agent_type: "qa" }, "previous") }, "qa"],
  [
    "the type that a failure chose before the first checkpoint",
    {
      ...{ agent_type: null, latest_id: null, phase: null, seq: 0 },
      budget: chosen({ to_agent_type: "qa" }),
    },
    "qa",
  ],
  ["none before the first checkpoint", { agent_type: null, latest_id: null, phase: null, seq: 0 }, null],
  ["none from another checkpoint", { budget: chosen({ checkpoint_id: "older" }) }, null],
  ["none on another rung without a choice", { budget: chosen({}, "previous") }, null],
  ["none while a handoff names the next phase", { phase: "handoff" }, null],
  ["none from a completed checkpoint", { completion_seq: 3, phase: "complete" }, null],
  [
    "none from a completed checkpoint after its author failed",
    {
      ...{ completion_seq: 3, phase: "complete" },
      budget: chosen({ to_agent_type: "qa" }),
    },
    null,
  ],
  [
    "the author's type at an operator's request",
    {
      ...{ completion_seq: 3, phase: "complete" },
      budget: chosen({ to_agent_type: "qa", by: "anna" }),
    },
    "qa",
  ],
  [
    "the type of a later author, which failed",
    {
      ...{ completion_seq: 2 },
      budget: chosen({ to_agent_type: "qa" }),
    },
    "qa",
  ],
])("is %s", (_, facts, type) => {
  expect(expectedRecoveryType({ ...head, ...facts })).toBe(type);
});
