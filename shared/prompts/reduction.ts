// The order in which a prompt that is too long is reduced: step by step from the top until it fits. The last step is then reverted as far
// as the budget allows.

import type { SectionName } from "./sections.ts";

/** The kept part of a section. */
export interface SectionSize {
  readonly items: number;
  /** The limit of characters per item. */
  readonly chars: number;
}

export const WHOLE: SectionSize = { items: Number.POSITIVE_INFINITY, chars: Number.POSITIVE_INFINITY };

/** The end of a list from which items are kept; the last items are the newest. */
export const KEPT: Readonly<Record<SectionName, "first" | "last">> = {
  next_action: "first",
  goal: "first",
  current_step: "first",
  workspace: "first",
  blockers: "first",
  remaining: "first",
  side_effects: "last",
  decisions: "last",
  constraints: "first",
  note: "first",
  rollback: "first",
  accomplished: "last",
  assumptions: "first",
  dependencies: "first",
  files: "first",
  artifacts: "last",
  verification: "first",
  mission: "first",
  progress: "first",
  phase: "first",
  time: "first",
};

export interface ReductionStep extends SectionSize {
  readonly section: SectionName;
}

const step = (section: SectionName, items: number, chars: number): ReductionStep => ({
  section,
  items,
  chars,
});

export const REDUCTION: readonly ReductionStep[] = [
  // First, long lists and texts lose the parts that can be read in the checkpoint.
  step("verification", 10, 200),
  step("accomplished", 20, 240),
  step("files", 40, 200),
  step("artifacts", 40, 240),
  step("mission", 20, 240),
  step("assumptions", 10, 240),
  step("dependencies", 10, 240),
  step("note", 1, 2_000),
  step("rollback", 1, 800),
  step("decisions", 20, 400),
  step("constraints", 20, 400),
  step("side_effects", 40, 300),
  step("remaining", 30, 300),
  step("blockers", 20, 400),
  step("workspace", 20, 200),
  step("current_step", 3, 2_000),
  step("goal", 1, 1_000),
  step("next_action", 2, 2_000),
  // The phase and the time are short and never dropped.
  step("time", 2, 60),
  step("phase", 1, 40),
  // Then the parts that the next agent does not need.
  step("verification", 0, 0),
  step("progress", 0, 0),
  step("accomplished", 8, 140),
  step("files", 15, 160),
  step("artifacts", 15, 160),
  step("mission", 6, 160),
  step("dependencies", 3, 140),
  step("assumptions", 3, 140),
  step("note", 1, 400),
  step("rollback", 1, 240),
  step("decisions", 8, 240),
  step("constraints", 8, 200),
  step("side_effects", 15, 200),
  step("remaining", 12, 200),
  step("blockers", 8, 240),
  step("workspace", 8, 160),
  step("current_step", 3, 600),
  step("goal", 1, 400),
  step("next_action", 2, 800),
  // Then everything but the next few actions.
  step("mission", 0, 0),
  step("dependencies", 0, 0),
  step("assumptions", 0, 0),
  step("rollback", 0, 0),
  step("note", 0, 0),
  step("files", 5, 120),
  step("artifacts", 5, 120),
  step("accomplished", 3, 100),
  step("decisions", 3, 140),
  step("constraints", 3, 140),
  step("remaining", 4, 120),
  step("side_effects", 5, 160),
  step("blockers", 3, 140),
  step("workspace", 3, 120),
  step("current_step", 2, 240),
  step("goal", 1, 200),
  step("files", 0, 0),
  step("artifacts", 0, 0),
  step("accomplished", 0, 0),
  step("decisions", 0, 0),
  step("workspace", 0, 0),
  step("constraints", 0, 0),
  step("remaining", 0, 0),
  step("side_effects", 0, 0),
  step("blockers", 0, 0),
  step("current_step", 0, 0),
  step("goal", 0, 0),
  // The next action is shortened and never dropped.
  step("next_action", 1, 240),
];
