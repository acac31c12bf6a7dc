// The instructions for an agent that does not know Fleet must keep its work complete: a checkpoint inherits nothing from its parent.

import { expect, test } from "vitest";
import { instructionsFor } from "../../../services/runner/instructions.ts";
import type { AgentRecord } from "../../../services/runner/journal.ts";

const RECORD: AgentRecord = {
  agent_id: "qa-1",
  agent_type: "qa",
  tenant: "default",
  task_id: "billing-42",
  handoff_id: "01a201cc-879c-72e2-aed5-480441be4fb1",
  checkpoint_id: "01a201cb-cbde-77d6-9ea9-de3c64504e6c",
  offer_digest: "0".repeat(64),
  command_id: "01a201cc-879c-72e2-aed5-480441be4fb2",
  launcher: "process",
  first_checkpoint_ms: 900_000,
  traceparent: null,
  created_at: "2026-01-24T10:00:00.000Z",
  state: "accepted",
  fence: 7,
  report: null,
};

test("the instructions have the command with task and fence, and ask for complete checkpoints", () => {
  const told = instructionsFor(RECORD, 7);
  expect(told).toContain("fleet checkpoint --task billing-42 --fence 7 --type qa ");
  expect(told).toContain("within 15 minutes");
  expect(told).toMatch(/name everything that is done and everything that remains/);
});
