// Checkpoints from the files of builders, and the times of items.

import { expect, test } from "vitest";
import { withTimes } from "../../../services/cli/input/checkpoint/item-times.ts";
import { fromWorkArtifact } from "../../../services/cli/input/checkpoint/work-artifact.ts";
import { renderWritten } from "../../../services/cli/rendering/checkpoints/outcome.ts";
import { checkpointInputSchema } from "../../../shared/protocol/checkpoint.ts";

const artifact = {
  schemaVersion: 1,
  taskId: "US-003",
  taskDescription: "Add dark mode toggle to settings page",
  checkpoint: {
    phase: "implementation",
    completedSteps: [
      {
        step: "Added theme context",
        filesCreated: ["src/contexts/ThemeContext.tsx"],
        filesModified: ["src/App.tsx"],
        timestamp: "2026-02-28T10:05:00Z",
      },
    ],
    pendingSteps: ["Write unit tests"],
    currentStep: {
      description: "Wire toggle to theme context",
      startedAt: "2026-02-28T10:10:00Z",
      partialWork: "Started adding useTheme hook to toggle component",
    },
    decisions: [{ decision: "Use CSS properties", rationale: "Fast", timestamp: "2026-02-28T10:02:00Z" }],
    blockers: ["no design"],
  },
  verification: { criteria: ["it toggles"], results: [] },
  metadata: {
    createdBy: "react-dev",
    lastUpdatedAt: "2026-02-28T10:10:00Z",
    checkpointReason: "failure",
    previousAgents: ["designer"],
  },
};

test("seed 003: a builder-state.json becomes a checkpoint, and `failure` is accepted as its reason", () => {
  const read = fromWorkArtifact(artifact) as { metadata: object };
  const document = { ...read, metadata: { ...read.metadata, agent_type: "implementation" } };
  // The answer names the phase that is stored.
  expect(renderWritten(document)).toContain("Phase: implementing");
  expect(checkpointInputSchema.parse(document)).toMatchObject({
    metadata: { task_id: "US-003", timestamp: "2026-02-28T10:10:00Z", trigger: { reason: "error" } },
    execution_state: {
      phase: "implementing",
      goal: "Add dark mode toggle to settings page",
      completed_items: [
        {
          title: "Added theme context",
          files_created: ["src/contexts/ThemeContext.tsx"],
          files_modified: ["src/App.tsx"],
          at: "2026-02-28T10:05:00Z",
        },
      ],
      pending_items: [{ title: "Write unit tests" }],
      blocked_items: [{ title: "no design" }],
      current_step: {
        description: "Wire toggle to theme context",
        started_at: "2026-02-28T10:10:00Z",
        partial_work: "Started adding useTheme hook to toggle component",
      },
    },
    context_summary: {
      key_decisions: [{ decision: "Use CSS properties", rationale: "Fast", at: "2026-02-28T10:02:00Z" }],
    },
    verification: { criteria: ["it toggles"] },
    recovery: { previous_agents: ["designer", "react-dev"] },
  });
});

test("any other document stays as it is, for the writer to judge", () => {
  for (const document of [
    {},
    { checkpoint: 7 },
    { checkpoint: null },
    { execution_state: { phase: "testing" }, checkpoint: {} },
  ])
    expect(fromWorkArtifact(document)).toBe(document);
  const odd = {
    checkpoint: { completedSteps: "all", pendingSteps: [7, null], currentStep: 7, decisions: [[]] },
  };
  expect(() => fromWorkArtifact(odd)).not.toThrow();
});

test("an item keeps the time at which it was first named; a new one has the time of now", () => {
  const before = {
    execution_state: { completed_items: [{ title: "a", at: "T1" }, { title: "b" }] },
    context_summary: { key_decisions: [{ decision: "a", at: "T2" }] },
  };
  const checkpoint = {
    execution_state: { phase: "testing", completed_items: ["a", "b", { title: "c", at: "T3" }, 7] },
    context_summary: { key_decisions: ["a", { decision: "d", rationale: "r" }] },
  };
  expect(withTimes(checkpoint, before, "NOW")).toEqual({
    execution_state: {
      phase: "testing",
      completed_items: [{ title: "a", at: "T1" }, { title: "b", at: "NOW" }, { title: "c", at: "T3" }, 7],
    },
    context_summary: {
      key_decisions: [
        { decision: "a", at: "T2" },
        { decision: "d", rationale: "r", at: "NOW" },
      ],
    },
  });
  expect(withTimes({ metadata: {} }, before, "NOW")).toEqual({ metadata: {} });
});
