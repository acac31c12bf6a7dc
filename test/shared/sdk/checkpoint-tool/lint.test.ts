// The guidelines of seed 004 for the content of a checkpoint.

import { describe, expect, test } from "vitest";
import {
  isVagueAction,
  type LintContext,
  type LintedCheckpoint,
  lintCheckpoint,
} from "../../../../shared/sdk/checkpoint-tool/lint.ts";

/** The examples of the seed, without a finding. */
const good: LintedCheckpoint = {
  goal: "Research MongoDB agent coordination patterns",
  completed: ["Found 3 official docs", "Analyzed MongoDB change streams"],
  pending: ["Synthesize findings", "Format report"],
  decisions: [{ decision: "Using Atlas Vector Search (better for semantic queries)" }],
  nextAction: "Call WebFetch on https://docs.mongodb.com/agents to analyze official guide",
  currentContext: "Analyzing src/db/mongo.ts for patterns",
  phase: "research",
};
const rules = (changes: Partial<LintedCheckpoint>, context?: LintContext) =>
  lintCheckpoint({ ...good, ...changes }, context).map(({ rule, path }) => `${rule} ${path}`);

test("the examples of the seed have no finding", () => {
  expect(lintCheckpoint(good, { phases: ["research", "drafting", "synthesis"] })).toEqual([]);
});

describe("seed 004 nextAction, best practice 1 (be specific) and anti-pattern 1 (vague):", () => {
  test.each([
    "Continue working",
    "continue",
    "Continue with the task.",
    "Keep going",
    "Proceed",
    "Next step",
    "Do the rest",
    "Continue where you left off",
    "to do",
    "please continue",
  ])("%s is vague", (text) => {
    expect(isVagueAction(text)).toBe(true);
    expect(lintCheckpoint({ ...good, nextAction: text })[0]).toEqual({
      rule: "next_action_vague",
      severity: "error",
      path: "resume_pointer.next_action",
      text: "the next action says nothing to an agent that does not know your context",
      example: "Analyze source 3 (https://example.com) for authentication patterns",
    });
  });

  test.each([
    "Run the tests",
    "Continue with item 7 of src/list.ts",
    "Finish the login form",
    "Start the server",
    "Analyze source 3 (https://example.com) for authentication patterns",
    "Read file X",
  ])("%s is not vague", (text) => expect(isVagueAction(text)).toBe(false));

  test("best practice 2 (include file paths): it names a place, or currentContext does", () => {
    const nextAction = "Run the tests";
    expect(rules({ nextAction, currentContext: undefined })).toEqual([
      "next_action_without_place resume_pointer.next_action",
    ]);
    expect(rules({ nextAction })).toEqual([]);
    for (const named of ["Run test/login.test.ts", "Call `npm test`", "Fix parseDate()", "Read issue 42"])
      expect(rules({ nextAction: named, currentContext: undefined })).toEqual([]);
  });
});

test.each<[string, Partial<LintedCheckpoint>, string[]]>([
  ["goal is one sentence: not two", { goal: "Write it. Then test it." }, ["goal_not_one_sentence goal"]],
  ["goal is one sentence: with an abbreviation", { goal: "Support e.g. dark mode in v1.2 of the page" }, []],
  ["anti-pattern 2: completed is empty", { completed: [] }, ["completed_empty completed_items"]],
  [
    "completed in the past tense: not the infinitive",
    { completed: ["Write the docs"] },
    ["completed_not_past_tense completed_items.0"],
  ],
  [
    "completed in the past tense: irregular verbs",
    { completed: ["Wrote the docs", "Ran the tests", "Built the page"] },
    [],
  ],
  [
    "completed specific enough not to be repeated: not without content",
    { completed: ["Found 3 docs", "Did stuff"] },
    ["completed_vague completed_items.1"],
  ],
  [
    "pending in the infinitive: not what is done",
    { pending: ["Wrote the docs"] },
    ["pending_not_an_action pending_items.0"],
  ],
  ["pending in the infinitive: actions", { pending: ["Read the docs", "Set the flag", "Write it"] }, []],
  [
    "decisions with rationale: not a bare one",
    { decisions: [{ decision: "Use LMDB" }] },
    ["decision_without_reason key_decisions.0"],
  ],
  [
    "decisions with rationale: as a member",
    { decisions: [{ decision: "Use LMDB", rationale: "embedded" }] },
    [],
  ],
  ["decisions with rationale: in the text", { decisions: [{ decision: "LMDB because it is embedded" }] }, []],
])("seed 004 guideline: %s", (_, changes, expected) => expect(rules(changes)).toEqual(expected));

test("seed 004 guideline: the phase is one of the agent's protocol", () => {
  expect(rules({ phase: "dreaming" })).toEqual([]);
  expect(rules({ phase: "dreaming" }, { phases: ["research"] })).toEqual([
    "phase_unknown resume_pointer.phase",
  ]);
});

test.each([
  [
    "best practice 4 and anti-pattern 3 (every tool call): too soon, less than a minute after the last one, without progress",
    30_000,
    2,
    ["too_soon metadata"],
  ],
  ["best practice 4: not too soon, less than a minute after the last one, with progress", 30_000, 1, []],
  ["best practice 5: not too late, after ten minutes", 600_000, 2, []],
  [
    "best practice 5 (not too rarely): too late, after more than half an hour",
    31 * 60_000,
    1,
    ["too_late metadata"],
  ],
])("seed 004 %s", (_, agoMs, completed, expected) => {
  expect(rules({}, { previous: { goal: good.goal, completed, agoMs } })).toEqual(expected);
});

test("seed 004 guideline: the goal matches the assignment, so one that changes is questioned", () => {
  expect(rules({}, { previous: { goal: "Another", completed: 0, agoMs: 120_000 } })).toEqual([
    "goal_differs goal",
  ]);
});
