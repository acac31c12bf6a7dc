// The instructions for an agent that does not know Fleet must keep its work complete: a checkpoint inherits nothing from its parent.

import { expect, test } from "vitest";
import { instructionsFor } from "../../../services/runner/instructions.ts";
import { agentRecord } from "../../harness/records/agent-record.ts";

test("the instructions have the command with task and fence, and ask for complete checkpoints", () => {
  const told = instructionsFor(agentRecord(), 7);
  expect(told).toContain("fleet checkpoint --task billing-42 --fence 7 --type qa ");
  expect(told).toContain("within 15 minutes");
  expect(told).toMatch(/name everything that is done and everything that remains/);
});
