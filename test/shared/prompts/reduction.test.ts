// The order in which a prompt that is too long is reduced.

import { describe, expect, test } from "vitest";
import { continuationPrompt } from "../../../shared/prompts/continuation.ts";
import { REDUCTION } from "../../../shared/prompts/reduction.ts";
import { SECTIONS, type SectionName } from "../../../shared/prompts/sections.ts";
import { checkpointWith } from "./checkpoints.ts";

describe("the order of reduction", () => {
  /** What is left of the sections that are never dropped. */
  const LEAST: Partial<Record<SectionName, object>> = {
    next_action: { items: 1, chars: 240 },
    phase: { items: 1, chars: 40 },
    time: { items: 2, chars: 60 },
  };

  test("shrinks each section step by step to nothing, except the next action, the phase and the time", () => {
    for (const section of SECTIONS) {
      const steps = REDUCTION.filter((step) => step.section === section);
      for (const [at, { items, chars }] of steps.entries()) {
        const before = steps[at - 1] ?? { items: Number.POSITIVE_INFINITY, chars: Number.POSITIVE_INFINITY };
        expect(items <= before.items && chars <= before.chars).toBe(true);
        expect(items < before.items || chars < before.chars).toBe(true);
      }
      const { items, chars } = steps.at(-1)!;
      expect({ items, chars }).toEqual(LEAST[section] ?? { items: 0, chars: 0 });
    }
  });

  test("the newest completed items are kept longest", () => {
    const completed_items = Array.from({ length: 200 }, (_, at) => `Finished part ${at} of the work`);
    const checkpoint = checkpointWith({ execution_state: { phase: "testing", completed_items } });
    const { text, leftOut } = continuationPrompt({ checkpoint, budget: { tokens: 900 } });
    expect(text).toContain("> - Finished part 199 of the work\n");
    expect(text).not.toContain("> - Finished part 0 of the work\n");
    expect(leftOut).toEqual([{ section: "accomplished", items: expect.any(Number), shortened: 0 }]);
  });

  test("the last step is reverted as far as the budget allows", () => {
    const completed_items = Array.from({ length: 500 }, (_, at) => `Finished part ${at} of the work`);
    const checkpoint = checkpointWith({ execution_state: { phase: "testing", completed_items } });
    expect(continuationPrompt({ checkpoint }).tokens).toBeGreaterThan(1_950);
  });
});
