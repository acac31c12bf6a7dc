/**
 * The runner's connection to the fleet, which it uses on behalf of each of its agents: it asks and accepts offers under its own name, and sends
 * heartbeats and reports of exits under theirs.
 */
import { type Bus, BusError } from "../../shared/bus/bus.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { ExitReport } from "../../shared/protocol/exit-report.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { keptTrace } from "../../shared/runtime/observability/trace-context.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import type { FleetClient } from "../../shared/sdk/client/client.ts";
import { clientOver } from "../../shared/sdk/client/connect.ts";
import type { OnWarning } from "../../shared/sdk/client/warnings.ts";
import type { HeartbeatSender, HeartbeatState } from "../../shared/sdk/heartbeat.ts";
import type { AgentRecord } from "./journal.ts";

/** The accepted fence, or the reason why no agent can accept the offer any more. */
export type OfferAcknowledgement = { readonly fence: number } | { readonly void: string };

export interface FleetPort {
  /**
   * Makes the agent the owner of its task. A repetition with the same record has no further effect. Throws a FleetError: if it is
   * retryable, the command may have been applied; otherwise it was not.
   */
  acknowledge(record: AgentRecord): Promise<OfferAcknowledgement>;
  /** True while the agent owns the task under its fence. */
  owns(record: AgentRecord): Promise<boolean>;
  /** Sends the agent's heartbeats until it is stopped. */
  startHeartbeat(record: AgentRecord, state: HeartbeatState): HeartbeatSender;
  /** Resolves when the report is on disk at the bus. A repetition has no further effect. */
  report(record: AgentRecord, report: ExitReport): Promise<void>;
}

/** True if the command may have been applied, or may succeed on a retry. */
export function isUncertain(error: unknown): boolean {
  return (error instanceof FleetError || error instanceof BusError) && error.retryable;
}

/** The refusals after which no agent can accept the offer. */
const VOID = new Set(["CONFLICT", "NOT_FOUND", "EXPIRED", "INVALID", "FENCED", "FINALIZED"]);

interface ConnectionParts {
  readonly clock: Clock;
  readonly log: Logger;
}

/** A client that acts for an agent over a shared connection. */
export function clientOn(
  bus: Bus,
  { clock, log, tenant, agentId }: ConnectionParts & { readonly tenant: string; readonly agentId: string },
): FleetClient {
  const onWarning: OnWarning = ({ text, details }) => log.warn(details, text);
  return clientOver(bus, { clock, log, tenant, agentId, onWarning });
}

/** Runs `fn` in the trace of the handoff, which the record keeps over a restart. */
function inTraceOf<T>({ traceparent }: AgentRecord, name: string, fn: () => Promise<T>): Promise<T> {
  return withSpan(name, {}, fn, { parent: keptTrace(traceparent) });
}

/** `own`: the client of the runner itself. */
export function openFleetPort(bus: Bus, own: FleetClient, parts: ConnectionParts): FleetPort {
  const clientOf = ({ tenant, agent_id }: AgentRecord): FleetClient =>
    clientOn(bus, { ...parts, tenant, agentId: agent_id });
  return {
    async acknowledge(record) {
      try {
        const { task_id, handoff_id, checkpoint_id, agent_type, offer_digest: digest, command_id } = record;
        const offer = { task_id, handoff_id, agent_type, digest, checkpoint: { id: checkpoint_id } };
        const accepted = await inTraceOf(record, "runner acknowledge", () =>
          own.acknowledgeHandoff(offer, { commandId: command_id, newAgentId: record.agent_id }),
        );
        return { fence: accepted.fence };
      } catch (error) {
        if (error instanceof FleetError && VOID.has(error.code)) return { void: error.message };
        throw error;
      }
    },
    async owns(record) {
      const task = await own.getTask(record.task_id);
      return task !== null && task.fence === record.fence && task.owner === record.agent_id;
    },
    startHeartbeat: (record, state) => clientOf(record).startHeartbeat(state),
    report: (record, report) => inTraceOf(record, "runner report", () => clientOf(record).reportExit(report)),
  };
}
