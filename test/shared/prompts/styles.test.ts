// The parts of a prompt that a style or the record of the work decides.

import { expect, test } from "vitest";
import { continuationPrompt } from "../../../shared/prompts/continuation.ts";
import { checkpointWith, usual } from "./checkpoints.ts";

test("has the side effects, and which of them must be verified", () => {
  const side_effects = [
    { id: "invoice", description: "send the invoice", state: "completed", result: "no. 7" },
    { id: "deploy", description: "deploy to staging", state: "claimed" },
  ];
  const checkpoint = checkpointWith({ execution_state: { phase: "testing", side_effects } });
  expect(continuationPrompt({ checkpoint }).text).toContain(
    "## Side effects\n" +
      "> - invoice: send the invoice (completed, do not repeat it: no. 7)\n" +
      "> - deploy: deploy to staging (claimed: it may have happened, so verify it before you repeat it)\n",
  );
});

test("names the agents before the author, without the author", () => {
  const recovery = { previous_agents: ["coder-5", "coder-7", "coder-6"] };
  const { text } = continuationPrompt({ checkpoint: checkpointWith({ recovery }) });
  expect(text).toContain("\nWorked on it before: agent coder-5, agent coder-6.\n");
});

test("has the agent's own continuation prompt, and leaves a generated one out", () => {
  const promptWith = (recovery: object) =>
    continuationPrompt({ checkpoint: checkpointWith({ recovery }) }).text;
  expect(promptWith({ continuation_prompt: "mind the gap" })).toContain("> mind the gap\n");
  const generated = { continuation_prompt: "mind the gap", continuation_prompt_source: "generated" };
  expect(promptWith(generated)).not.toContain("mind the gap");
});

test("seed 003 resume prompt template: style steps has its headings, and its items as a checklist", () => {
  const { text } = continuationPrompt({ checkpoint: usual, style: "steps" });
  const seed = ["Task", "Completed", "Decisions Made", "Pending", "Current Step (in progress)"];
  const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, name]) => name ?? "");
  expect(headings.filter((name) => seed.includes(name))).toEqual(seed);
  expect(headings.indexOf("Files Created/Modified")).toBeLessThan(headings.indexOf("Your job"));
  expect(text).toContain("> - [x] Step 1:");
  expect(text).toContain("> - [ ] Wire the toggle to the theme\n");
  expect(text).toContain("> Partial work: ");
});

test("seed 004 context reconstruction template: style pointer has its fields in their order, to the phase of the resume pointer", () => {
  const checkpoint = checkpointWith({
    execution_state: {
      phase: "handoff",
      goal: "g",
      completed_items: ["a"],
      pending_items: ["b"],
      resume_pointer: { next_action: "n", phase: "testing" },
    },
    context_summary: { key_decisions: ["d"] },
  });
  const { text } = continuationPrompt({ checkpoint, style: "pointer" });
  const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, name]) => name);
  expect(headings).toEqual([
    ...["Provenance", "Goal", "Completed", "Pending", "Key Decisions", "Next Action", "Phase"],
    ...["Left out", "Your job"],
  ]);
  expect(text).toContain("## Phase\n> - testing\n");
});

test("style mission has the recovery context of seed 002, with the elapsed time", () => {
  const recovery_context = {
    mission_summary: "Ship the release",
    last_action: "Merged the branch",
    next_steps: ["Tag it"],
    blockers: ["The certificate has expired"],
    files_modified: ["CHANGES.md"],
    elapsed_time_ms: 3_900_000,
    last_activity_at: "2026-01-10T09:00:00Z",
  };
  const checkpoint = checkpointWith({
    execution_state: { phase: "implementing", progress_percent: 40 },
    fleet: { mission_id: "release", recovery_context },
  });
  const { text } = continuationPrompt({ checkpoint, style: "mission" });
  for (const part of [
    "## Mission\n> Ship the release\n",
    "## Progress\n> - 40 % done\n",
    "## Last Action\n> Merged the branch\n",
    "## Next Steps\n> - Tag it\n",
    "## Current Blockers\n> - The certificate has expired\n",
    "## Files Modified\n> - CHANGES.md\n",
    "## Time Context\n> - Elapsed: 1 h 5 min\n> - Last activity: 2026-01-10T09:00:00Z\n",
  ])
    expect(text).toContain(part);
});
