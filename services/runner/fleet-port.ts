/** What an agent's life needs of the fleet. */
import { BusError } from "../../shared/bus/bus.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { ExitReport } from "../../shared/protocol/exit-report.ts";
import type { Heart, Pulse } from "../../shared/sdk/heartbeat.ts";
import type { AgentRecord } from "./agent-record.ts";

/** `void`: the offer can come to nothing any more, whoever takes it; why is in the text. */
export type Acknowledged = { readonly fence: number } | { readonly void: string };

export interface Outside {
  /**
   * Makes the agent the owner of its task; the same record again has no second effect. Throws FleetError: retryable when it may or may
   * not have happened, else it did not.
   */
  acknowledge(record: AgentRecord): Promise<Acknowledged>;
  /** Whether the task is still the agent's, under its fence. */
  owns(record: AgentRecord): Promise<boolean>;
  /** Says for the agent that it lives, until it is stopped. */
  startHeartbeat(record: AgentRecord, pulse: Pulse): Heart;
  /** On disk at the bus when it resolves; twice is once. */
  report(record: AgentRecord, report: ExitReport): Promise<void>;
}

/** Whether it may have happened, or may happen when it is tried again. */
export function isUncertain(error: unknown): boolean {
  return (error instanceof FleetError || error instanceof BusError) && error.retryable;
}
