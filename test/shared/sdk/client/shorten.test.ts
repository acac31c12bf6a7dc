// Checkpoints over the limit: the order in which parts are left out.

import { describe, expect, test } from "vitest";
import type { CheckpointInput } from "../../../../shared/protocol/checkpoint.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { STEPS, shortened } from "../../../../shared/sdk/client/shorten.ts";

const long = "x".repeat(9_000);
const large: CheckpointInput = {
  metadata: { agent_type: "qa" },
  execution_state: {
    phase: "testing",
    goal: "Stay",
    completed_items: Array.from({ length: 300 }, (_, n) => ({
      title: `item ${n}`,
      notes: "n".repeat(200),
      files_created: [`file-${n}.ts`],
    })),
    pending_items: Array.from({ length: 300 }, (_, n) => `next ${n}`),
    resume_pointer: { next_action: "Continue with item 300" },
    current_step: { description: "Now", partial_work: long },
  },
  context_summary: {
    key_decisions: Array.from({ length: 300 }, (_, n) => `decision ${n}`),
    assumptions: Array.from({ length: 300 }, (_, n) => `assumption ${n}`),
  },
  metrics: { files_modified: ["a.ts"] },
  verification: { results: Array.from({ length: 100 }, (_, n) => `result ${n}`) },
  recovery: { workspace: { files: Array.from({ length: 50 }, (_, n) => ({ path: `${n}`, sha256: "a" })) } },
};
const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value));

describe("seed 000 §7 size exceeds limits: a checkpoint", () => {
  test("that fits stays as it is", () => {
    expect(shortened(large)).toEqual({ checkpoint: large, leftOut: [] });
    expect(shortened(large).checkpoint).toBe(large);
  });

  test("loses its parts in the documented order, and no more than necessary", () => {
    const smallest = bytes(shortened(large, 1).checkpoint);
    let known: readonly string[] = [];
    for (let max = bytes(large); max >= smallest; max -= 500) {
      const { checkpoint, leftOut } = shortened(large, max);
      expect(bytes(checkpoint)).toBeLessThanOrEqual(max);
      expect(leftOut.slice(0, known.length)).toEqual(known);
      known = leftOut;
    }
    expect(shortened(large, 1).leftOut).toEqual(STEPS.map(({ name }) => name));
  });

  test("keeps the goal, the next action and the newest items", () => {
    const { execution_state, context_summary } = shortened(large, 1).checkpoint;
    expect(execution_state).toMatchObject({
      goal: "Stay",
      resume_pointer: { next_action: "Continue with item 300" },
    });
    expect(execution_state.completed_items?.at(-1)).toEqual({ title: "item 299" });
    expect(execution_state.pending_items?.[0]).toBe("next 0");
    expect(context_summary?.key_decisions?.at(-1)).toBe("decision 299");
    expect(large.execution_state.completed_items?.[0]).toHaveProperty("notes");
  });

  test("of any form is left to the writer's refusal", () => {
    const odd = { metadata: 7, execution_state: "x".repeat(LIMITS.checkpoint_bytes_max) } as never;
    expect(() => shortened(odd)).not.toThrow();
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    expect(shortened(circular as never).checkpoint).toBe(circular);
  });
});
