/** What the runner knows of one agent, as it stands on disk. */
import type { ExitReport } from "../../shared/protocol/exit-report.ts";
import type { LauncherName } from "../../shared/protocol/runner-settings.ts";

/**
 * accepting: about to acknowledge the offer, perhaps done; accepted: the task is the agent's, which runs or is about to; ended: nobody
 * has been told yet; reported: everything is done.
 */
export type RecordState = "accepting" | "accepted" | "ended" | "reported";

export interface AgentRecord {
  readonly agent_id: string;
  readonly agent_type: string;
  readonly tenant: string;
  readonly task_id: string;
  readonly handoff_id: string;
  readonly checkpoint_id: string;
  /** Of the acknowledgement: the same at every attempt, so that it has one effect. */
  readonly command_id: string;
  readonly launcher: LauncherName;
  readonly first_checkpoint_ms: number;
  readonly traceparent: string | null;
  readonly created_at: string;
  readonly state: RecordState;
  /** Under which the agent has the task; null before it is known. */
  readonly fence: number | null;
  readonly report: ExitReport | null;
}
