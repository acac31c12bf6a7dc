/** The report of an agent's exit, as a runner writes it. */
import type { ExitReport } from "../../../shared/protocol/exit-report.ts";

type Known = Pick<ExitReport, "agent_id" | "task_id">;

/** Absent fields: an agent of the type qa crashed just now under fence 1. */
export function exitReport(fields: Known & Partial<ExitReport>): ExitReport {
  const now = new Date().toISOString();
  return {
    agent_type: "qa",
    fence: 1,
    class: "crash",
    exit_code: 1,
    signal: null,
    started_at: now,
    ended_at: now,
    host: "here",
    ...fields,
  };
}
