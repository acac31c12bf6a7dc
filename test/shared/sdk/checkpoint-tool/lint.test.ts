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

describe("the next action", () => {
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

  test("names a place, or the context does", () => {
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
  ["a goal of two sentences", { goal: "Write it. Then test it." }, ["goal_not_one_sentence goal"]],
  ["an abbreviation in the goal", { goal: "Support e.g. dark mode in v1.2 of the page" }, []],
  ["no completed items", { completed: [] }, ["completed_empty completed_items"]],
  [
    "an item in the infinitive",
    { completed: ["Write the docs"] },
    ["completed_not_past_tense completed_items.0"],
  ],
  ["an irregular verb", { completed: ["Wrote the docs", "Ran the tests", "Built the page"] }, []],
  [
    "an item without content",
    { completed: ["Found 3 docs", "Did stuff"] },
    ["completed_vague completed_items.1"],
  ],
  ["a pending item that is done", { pending: ["Wrote the docs"] }, ["pending_not_an_action pending_items.0"]],
  ["a pending action", { pending: ["Read the docs", "Set the flag", "Write it"] }, []],
  ["a bare decision", { decisions: [{ decision: "Use LMDB" }] }, ["decision_without_reason key_decisions.0"]],
  ["a rationale", { decisions: [{ decision: "Use LMDB", rationale: "embedded" }] }, []],
  ["a reason in the text", { decisions: [{ decision: "LMDB because it is embedded" }] }, []],
])("%s", (_, changes, expected) => expect(rules(changes)).toEqual(expected));

test("the phase is one of the agent's protocol", () => {
  expect(rules({ phase: "dreaming" })).toEqual([]);
  expect(rules({ phase: "dreaming" }, { phases: ["research"] })).toEqual([
    "phase_unknown resume_pointer.phase",
  ]);
});

test.each([
  ["less than a minute after the last one, without progress", 30_000, 2, ["too_soon metadata"]],
  ["less than a minute after the last one, with progress", 30_000, 1, []],
  ["after ten minutes", 600_000, 2, []],
  ["after more than half an hour", 31 * 60_000, 1, ["too_late metadata"]],
])("%s", (_, agoMs, completed, expected) => {
  expect(rules({}, { previous: { goal: good.goal, completed, agoMs } })).toEqual(expected);
});

test("a goal that changes is questioned", () => {
  expect(rules({}, { previous: { goal: "Another", completed: 0, agoMs: 120_000 } })).toEqual([
    "goal_differs goal",
  ]);
});
