/**
 * The runner's way to the fleet: one connection, over which it speaks for each of its agents. Commands carry the agent's id in their
 * subject, so the runner's user of the bus must be permitted to publish for the agents that it starts.
 */
import { type Bus, BusError } from "../../shared/bus/bus.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { ExitReport } from "../../shared/protocol/exit-report.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { keptTrace } from "../../shared/runtime/observability/trace-context.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import { TaskOrder } from "../../shared/sdk/delivery/command-order.ts";
import type { Heart, Pulse } from "../../shared/sdk/heartbeat.ts";
import { linkTo } from "../../shared/sdk/request/connection.ts";
import { FleetClient } from "../../shared/sdk/sdk.ts";
import type { AgentRecord } from "./journal.ts";

/** `void`: the offer can come to nothing any more, whoever takes it; why is in the text. */
export type OfferAcknowledgement = { readonly fence: number } | { readonly void: string };

export interface FleetPort {
  /**
   * Makes the agent the owner of its task; the same record again has no second effect. Throws FleetError: retryable when it may or may
   * not have happened, else it did not.
   */
  acknowledge(record: AgentRecord): Promise<OfferAcknowledgement>;
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

/** After these the offer can come to nothing any more, whoever takes it. */
const VOID = new Set(["CONFLICT", "NOT_FOUND", "EXPIRED", "INVALID", "FENCED", "FINALIZED"]);

interface ConnectionParts {
  readonly clock: Clock;
  readonly log: Logger;
}

/** A client that speaks for an agent over a connection that it does not own. */
export function clientOn(
  bus: Bus,
  { clock, log, tenant, agentId }: ConnectionParts & { readonly tenant: string; readonly agentId: string },
): FleetClient {
  return new FleetClient({
    link: linkTo(bus),
    clock,
    log,
    tenant,
    agentId,
    spool: undefined,
    order: new TaskOrder(clock),
    fallback: "none",
    onWarning: ({ text, details }) => log.warn(details, text),
  });
}

/** The handoff's trace, also after a restart, when nothing else remembers it. */
function inTraceOf<T>({ traceparent }: AgentRecord, name: string, fn: () => Promise<T>): Promise<T> {
  return withSpan(name, {}, fn, { parent: keptTrace(traceparent) });
}

export function openFleetPort(bus: Bus, parts: ConnectionParts): FleetPort {
  const clientOf = ({ tenant, agent_id }: AgentRecord): FleetClient =>
    clientOn(bus, { ...parts, tenant, agentId: agent_id });
  return {
    async acknowledge(record) {
      try {
        const { task_id, handoff_id, checkpoint_id, agent_type, command_id } = record;
        const offer = { task_id, handoff_id, agent_type, checkpoint: { id: checkpoint_id } };
        const accepted = await inTraceOf(record, "runner acknowledge", () =>
          clientOf(record).acknowledgeHandoff(offer, { commandId: command_id }),
        );
        return { fence: accepted.fence };
      } catch (error) {
        if (error instanceof FleetError && VOID.has(error.code)) return { void: error.message };
        throw error;
      }
    },
    async owns(record) {
      const task = await clientOf(record).getTask(record.task_id);
      return task !== null && task.fence === record.fence && task.owner === record.agent_id;
    },
    startHeartbeat: (record, pulse) => clientOf(record).startHeartbeat(pulse),
    report: (record, report) => inTraceOf(record, "runner report", () => clientOf(record).reportExit(report)),
  };
}
