/** The record of a runner about an agent that it has accepted a task for. */
import type { AgentRecord } from "../../../services/runner/journal.ts";

export const agentRecord = (): AgentRecord => ({
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
});
