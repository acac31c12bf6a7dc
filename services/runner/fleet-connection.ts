/**
 * The runner's way to the fleet: one connection, over which it speaks for each of its agents. Commands carry the agent's id in their
 * subject, so the runner's user of the bus must be permitted to publish for the agents that it starts.
 */
import type { Bus } from "../../shared/bus/bus.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { keptTrace } from "../../shared/runtime/observability/trace-context.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import { TaskOrder } from "../../shared/sdk/delivery/command-order.ts";
import { linkTo } from "../../shared/sdk/request/connection.ts";
import { FleetClient } from "../../shared/sdk/sdk.ts";
import type { AgentRecord } from "./agent-record.ts";
import type { Outside } from "./fleet-port.ts";

/** After these the offer can come to nothing any more, whoever takes it. */
const VOID = new Set(["CONFLICT", "NOT_FOUND", "EXPIRED", "INVALID", "FENCED", "FINALIZED"]);

interface Surroundings {
  readonly clock: Clock;
  readonly log: Logger;
}

/** A client that speaks for an agent over a connection that it does not own. */
export function clientOn(
  bus: Bus,
  { clock, log, tenant, agentId }: Surroundings & { readonly tenant: string; readonly agentId: string },
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

export function outsideOf(bus: Bus, surroundings: Surroundings): Outside {
  const clientOf = ({ tenant, agent_id }: AgentRecord): FleetClient =>
    clientOn(bus, { ...surroundings, tenant, agentId: agent_id });
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
