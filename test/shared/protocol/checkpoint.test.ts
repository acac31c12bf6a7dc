// Checkpoints as agents write them: short forms become long ones, absent members get their defaults, unknown
// members are kept, and wrong ones are named with their path.

import { describe, expect, test } from "vitest";
import {
  type CheckpointInput,
  checkpointInputSchema,
  checkpointSchema,
  PHASES,
  TRIGGER_REASONS,
} from "../../../shared/protocol/checkpoint.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { CHECKPOINT_ID } from "../integrity/checkpoint.ts";

const MINIMAL = { metadata: { agent_type: "qa" }, execution_state: { phase: "planning" } } as const;

/** A minimal checkpoint with `value` at the dotted path. */
function withValue(path: string, value: unknown): CheckpointInput {
  const input = structuredClone(MINIMAL) as unknown as Record<string, unknown>;
  const steps = path.split(".");
  const last = steps.pop() as string;
  let at = input;
  for (const step of steps) {
    at[step] ??= {};
    at = at[step] as Record<string, unknown>;
  }
  at[last] = value;
  return input as CheckpointInput;
}

function valueAt(value: unknown, path: string): unknown {
  return path.split(".").reduce((at, step) => (at as Record<string, unknown>)?.[step], value);
}

test("a minimal checkpoint gets the defaults", () => {
  expect(checkpointInputSchema.parse(MINIMAL)).toEqual({
    schema_version: "1.1",
    metadata: { agent_type: "qa", iteration: 1, trigger: { reason: "manual" } },
    execution_state: { phase: "planning", completed_items: [], pending_items: [], blocked_items: [] },
    context_summary: { key_decisions: [], assumptions: [], constraints: [], external_dependencies: [] },
    metrics: { tokens_consumed: 0, tools_invoked: 0, files_modified: [] },
    recovery: {},
  });
});

const accepted: [path: string, given: unknown, becomes: unknown][] = [
  ["execution_state.phase", "implementation", "implementing"],
  ["execution_state.phase", "verification", "testing"],
  ...PHASES.map((phase): [string, string, string] => ["execution_state.phase", phase, phase]),
  ["execution_state.completed_items", ["a", { title: "b" }], [{ title: "a" }, { title: "b" }]],
  ["execution_state.pending_items", ["a"], [{ title: "a" }]],
  [
    "execution_state.blocked_items",
    ["a", { title: "b", blocker: "no access" }],
    [{ title: "a" }, { title: "b", blocker: "no access" }],
  ],
  [
    "context_summary.key_decisions",
    ["a", { decision: "b", rationale: "c" }],
    [{ decision: "a" }, { decision: "b", rationale: "c" }],
  ],
  ["metadata.checkpoint_id", `chk-${CHECKPOINT_ID}`, CHECKPOINT_ID],
  ["metadata.checkpoint_id", CHECKPOINT_ID.toUpperCase(), CHECKPOINT_ID],
  ["metadata.checkpoint_id", `chk-${CHECKPOINT_ID.toUpperCase()}`, CHECKPOINT_ID],
  ["metadata.parent_ids", [`chk-${CHECKPOINT_ID}`], [CHECKPOINT_ID]],
  ["recovery.last_successful_state", `chk-${CHECKPOINT_ID}`, CHECKPOINT_ID],
  ["metadata.timestamp", "2026-01-24T10:00:00+02:00", "2026-01-24T10:00:00+02:00"],
  ["metadata.timestamp", "2026-01-24T10:00:00.123456Z", "2026-01-24T10:00:00.123456Z"],
  ...TRIGGER_REASONS.map((reason): [string, unknown, unknown] => [
    "metadata.trigger",
    { reason },
    { reason },
  ]),
  ["metrics.tests_status", {}, { passed: 0, failed: 0, skipped: 0 }],
  ["metrics.context_utilization", 1, 1],
  ["verification", {}, { criteria: [], results: [] }],
  [
    "fleet",
    { mission_id: "m-1" },
    { mission_id: "m-1", sorties: [], active_locks: [], pending_messages: [] },
  ],
  ["compliance.retention_policy", "P6Y", "P6Y"],
];
test.each(accepted)("%s: %j becomes %j", (path, given, becomes) => {
  expect(valueAt(checkpointInputSchema.parse(withValue(path, given)), path)).toEqual(becomes);
});

describe("unknown fields are kept", () => {
  const extra = { since: "9.9", list: [1, { deep: null }] };
  test.each([
    ["x_new"],
    ["metadata.x_new"],
    ["metadata.trigger.x_new"],
    ["execution_state.x_new"],
    ["execution_state.current_step.x_new"],
    ["execution_state.resume_pointer.x_new"],
    ["context_summary.x_new"],
    ["metrics.x_new"],
    ["metrics.tests_status.x_new"],
    ["metrics.cost.x_new"],
    ["recovery.x_new"],
    ["recovery.workspace.x_new"],
    ["verification.x_new"],
    ["fleet.x_new"],
    ["fleet.recovery_context.x_new"],
    ["compliance.x_new"],
  ])("at %s", (path) => {
    const input = withValue(path, extra) as Record<string, Record<string, Record<string, unknown>>>;
    // Sections that are only there for the unknown field need their own required ones.
    if (path.includes("trigger")) input.metadata!.trigger!.reason = "manual";
    if (path.includes("current_step")) input.execution_state!.current_step!.description = "x";
    if (path.includes("resume_pointer")) input.execution_state!.resume_pointer!.next_action = "x";
    if (path.includes("fleet")) Object.assign(input.fleet!, { mission_id: "m" });
    expect(valueAt(checkpointInputSchema.parse(input), path)).toEqual(extra);
  });

  test.each([
    ["execution_state.completed_items", { title: "a", extra }],
    ["execution_state.blocked_items", { title: "a", extra }],
    ["context_summary.key_decisions", { decision: "a", extra }],
  ])("in the items of %s", (path, item) => {
    const parsed = checkpointInputSchema.parse(withValue(path, [item]));
    expect(valueAt(parsed, path)).toEqual([item]);
  });
});

const refused: [path: string, value: unknown, problem?: string][] = [
  ["schema_version", "1"],
  ["schema_version", 1],
  ["metadata", undefined],
  ["metadata", []],
  ["metadata.agent_type", undefined],
  ["metadata.agent_type", "a b"],
  ["metadata.agent_type", ""],
  ["metadata.task_id", "a.b"],
  ["metadata.tenant", "*"],
  ["metadata.agent_id", "x".repeat(65)],
  ["metadata.session_id", 7],
  ["metadata.checkpoint_id", "chk-1"],
  ["metadata.checkpoint_id", "3b241101-e2bb-4255-8caf-4136c566a962"],
  ["metadata.parent_ids", ["x"], "metadata.parent_ids.0"],
  ["metadata.parent_ids", Array.from({ length: LIMITS.parent_count_max + 1 }, () => CHECKPOINT_ID)],
  ["metadata.iteration", 1.5],
  ["metadata.iteration", -1],
  ["metadata.timestamp", "2026-01-24T10:00:00"],
  ["metadata.timestamp", "2026-02-30T10:00:00Z"],
  ["metadata.timestamp", 1_769_248_800],
  ["metadata.trigger", { reason: "whim" }, "metadata.trigger.reason"],
  ["metadata.trigger", "manual"],
  ["metadata.labels", { a: 1 }, "metadata.labels.a"],
  ["metadata.labels", { a: "x".repeat(257) }, "metadata.labels.a"],
  ["metadata.labels", Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`l${i}`, ""]))],
  ["execution_state", undefined],
  ["execution_state.phase", "IMPLEMENTING"],
  ["execution_state.phase", undefined],
  ["execution_state.completed_items", "a"],
  ["execution_state.completed_items", [1], "execution_state.completed_items.0"],
  ["execution_state.completed_items", [""], "execution_state.completed_items.0"],
  ["execution_state.pending_items", ["a", { title: "" }], "execution_state.pending_items.1.title"],
  [
    "execution_state.pending_items",
    [{ title: "a", files_created: [1] }],
    "execution_state.pending_items.0.files_created.0",
  ],
  ["execution_state.pending_items", [{ title: "a", at: "now" }], "execution_state.pending_items.0.at"],
  ["execution_state.blocked_items", [{ title: "a", blocker: {} }], "execution_state.blocked_items.0.blocker"],
  ["execution_state.pending_items", Array.from({ length: LIMITS.array_items_max + 1 }, () => "a")],
  ["execution_state.progress_percent", 100.5],
  [
    "execution_state.current_step",
    { started_at: "2026-01-24T10:00:00Z" },
    "execution_state.current_step.description",
  ],
  ["execution_state.resume_pointer", {}, "execution_state.resume_pointer.next_action"],
  ["context_summary", null],
  ["context_summary.key_decisions", [{ rationale: "x" }], "context_summary.key_decisions.0.decision"],
  ["context_summary.assumptions", [1], "context_summary.assumptions.0"],
  ["metrics.tokens_consumed", -1],
  ["metrics.tokens_consumed", "12"],
  ["metrics.tokens_consumed", 2 ** 53],
  ["metrics.context_utilization", 71],
  ["metrics.tests_status", { passed: "1" }, "metrics.tests_status.passed"],
  ["metrics.files_modified", null],
  ["recovery.last_successful_state", "latest"],
  ["recovery.workspace", { files: [{}] }, "recovery.workspace.files.0.path"],
  ["verification", { criteria: {} }, "verification.criteria"],
  ["fleet", {}, "fleet.mission_id"],
  ["fleet", { mission_id: "m", sorties: [{}] }, "fleet.sorties.0.id"],
  ["compliance.retention_policy", "P1H"],
  ["compliance.retention_policy", "Short"],
];
test.each(refused)("%s: %j is refused", (path, value, problem = path) => {
  const result = checkpointInputSchema.safeParse(withValue(path, value));
  expect(result.success).toBe(false);
  // A union complains at its own place; validation.test.ts shows that answers name the member.
  const paths = result.error!.issues.map((issue) => issue.path.join("."));
  expect(paths).toHaveLength(1);
  expect(problem.startsWith(paths[0]!)).toBe(true);
});

test("a stored checkpoint requires the members that the writer adds", () => {
  const result = checkpointSchema.safeParse(checkpointInputSchema.parse(MINIMAL));
  const paths = result.error!.issues.map((issue) => issue.path.join("."));
  expect(paths.sort()).toEqual(
    [
      ...[
        "agent_id",
        "checkpoint_id",
        "committed_at",
        "parent_ids",
        "seq",
        "status",
        "task_id",
        "tenant",
        "timestamp",
        "version",
      ].map((field) => `metadata.${field}`),
      "compliance",
    ].sort(),
  );
});
