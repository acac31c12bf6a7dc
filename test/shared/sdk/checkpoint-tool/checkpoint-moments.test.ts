// The moments and the frequency of checkpoints in seed 004: a program, a model and a person read the same ones.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { instructionsFor } from "../../../../services/runner/instructions.ts";
import {
  CHECKPOINT_AFTER,
  MANDATORY_MOMENTS,
  OPTIONAL_MOMENTS,
} from "../../../../shared/protocol/checkpoint-moments.ts";
import { CHECKPOINT_TOOL_DESCRIPTION } from "../../../../shared/protocol/checkpoint-tool.ts";
import { MCP_TOOL_DESCRIPTIONS } from "../../../../shared/protocol/mcp-tools.ts";
import { projectRoot } from "../../../harness/project-root.ts";
import { agentRecord } from "../../../harness/records/agent-record.ts";

const manual = readFileSync(join(projectRoot, "shared/sdk/README.md"), "utf8").replaceAll(/\s+/g, " ");
const instructions = instructionsFor(agentRecord(), 7).replaceAll(/\s+/g, " ");

test.each([
  ["Phase transition", "at a phase transition", "phase_transition"],
  ["Task completion", "at the completion of the task", "task_complete"],
  ["Before long operation", "before a long operation", "before_long_operation"],
  ["Receiving new priority message", "on a new message with priority", "priority_message"],
  ["Every 10 minutes of work", "after 10 minutes of work", "periodic"],
])("seed 004 mandatory moment: %s", (_, when, reason) => {
  expect(MANDATORY_MOMENTS).toContainEqual(expect.objectContaining({ when, reason }));
  for (const text of [manual, instructions, CHECKPOINT_TOOL_DESCRIPTION]) expect(text).toContain(when);
});

test.each([
  ["After processing each source (research)", "after each source, in research"],
  ["After writing each section (writing)", "after each section, in writing"],
  ["After analyzing each component (analysis)", "after each component, in analysis"],
])("seed 004 optional moment: %s", (_, when) => {
  expect(OPTIONAL_MOMENTS).toContainEqual(expect.objectContaining({ when, reason: "progress" }));
  for (const text of [manual, instructions, CHECKPOINT_TOOL_DESCRIPTION]) expect(text).toContain(when);
});

test.each([
  ["Task receipt", "task receipt", "the requirements are parsed"],
  ["Discovery", "discovery", "each source is found"],
  ["Research/Analysis", "research and analysis", "each item is processed"],
  ["Drafting", "drafting", "each section is completed"],
  ["Synthesis", "synthesis", "each major insight"],
  ["Delivery", "delivery", "the final output"],
])("seed 004 frequency by phase: %s", (_, phase, event) => {
  expect(Object.entries(CHECKPOINT_AFTER)).toContainEqual([phase, event]);
  expect(manual).toContain(`| ${phase} | ${event} |`);
  for (const text of [instructions, CHECKPOINT_TOOL_DESCRIPTION])
    expect(text).toContain(`${phase}: after ${event}`);
});

test("a model gets the same words from the tool of the SDK and from that of MCP", () => {
  expect(MCP_TOOL_DESCRIPTIONS.checkpoint).toBe(CHECKPOINT_TOOL_DESCRIPTION);
});
