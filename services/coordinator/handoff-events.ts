/**
 * The events of handoffs. A request wakes the controller. Every change is counted and logged, and a failure
 * alerts operators. Requests have a consumer of their own, because agents wait for them.
 */
import { publishAlert } from "../../shared/bus/publish/publish-alert.ts";
import { alertOf } from "../../shared/protocol/alerts.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { EventData, FleetEvent } from "../../shared/protocol/events.ts";
import type { Handoff } from "../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../shared/protocol/handoff-states.ts";
import type { Severity } from "../../shared/protocol/severity.ts";
import type { HandoffPlace } from "../../shared/records/handoff/lists.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Controller } from "../../shared/runtime/controller.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import {
  type EventContext,
  type EventOf,
  startEventConsumer,
} from "../../shared/service-host/event-consumer.ts";

const CHANGES = [
  "HANDOFF_VALIDATED",
  "HANDOFF_OFFERED",
  "HANDOFF_ACKNOWLEDGED",
  "HANDOFF_CONFIRMED",
  "HANDOFF_FAILED",
] as const;

type HandoffEvent = EventOf<"AGENT_HANDOFF" | (typeof CHANGES)[number]>;
type Repository = Pick<CheckpointRepository, "handoff">;

export function startHandoffEvents(
  context: EventContext,
  repository: Repository,
  controller: Pick<Controller<HandoffPlace>, "wake">,
): Stop {
  const stops = [
    startEventConsumer(context, {
      name: "handoff event",
      durable: "coordinator",
      types: ["AGENT_HANDOFF"],
      inProgressMax: 128,
      handle: async (event) => {
        await controller.wake({ tenant: event.tenant, handoff_id: event.data.handoffId });
        recordChange(context, event);
      },
    }),
    startEventConsumer(context, {
      name: "handoff event",
      durable: "coordinator-changes",
      types: CHANGES,
      // Few: they only report, and must not compete with requests.
      inProgressMax: 4,
      handle: async (event) => {
        if (event.type === "HANDOFF_FAILED") await alert(context, repository, event);
        if (event.type === "HANDOFF_ACKNOWLEDGED") await measure(context, repository, event);
        recordChange(context, event);
      },
    }),
  ];
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}

function recordChange({ metrics, log }: EventContext, event: HandoffEvent): void {
  const { tenant, subject: task_id, data } = event;
  const state = stateAfter(event);
  metrics.handoffsTotal.inc({ state });
  const reason = event.type === "HANDOFF_FAILED" ? { reason: event.data.reason } : {};
  log.info({ tenant, task_id, handoff_id: data.handoffId, state, ...reason }, "handoff changed");
}

function stateAfter(event: HandoffEvent): HandoffState {
  switch (event.type) {
    case "AGENT_HANDOFF":
      return "requested";
    case "HANDOFF_VALIDATED":
      return "validated";
    case "HANDOFF_OFFERED":
      return "offered";
    case "HANDOFF_ACKNOWLEDGED":
      return "accepted";
    case "HANDOFF_CONFIRMED":
      return "confirmed";
    case "HANDOFF_FAILED":
      return event.data.state;
  }
}

async function measure(
  { metrics }: EventContext,
  repository: Repository,
  { tenant, time, data }: FleetEvent<"HANDOFF_ACKNOWLEDGED">,
): Promise<void> {
  const handoff = await found(repository, tenant, data.handoffId);
  const durationMs = Date.parse(time) - Date.parse(handoff?.requested_at ?? "");
  if (!Number.isNaN(durationMs)) metrics.handoffDurationMs.observe(Math.max(0, durationMs));
}

/** null: the store does not have the handoff, for instance after a restore, or its record is corrupt. */
async function found(repository: Repository, tenant: string, id: string): Promise<Handoff | null> {
  try {
    return await repository.handoff(tenant, { handoff_id: id });
  } catch (error) {
    if (error instanceof FleetError && (error.code === "NOT_FOUND" || error.code === "CORRUPT")) return null;
    throw error;
  }
}

/** The caller that cancels a handoff knows that it ended; the other endings need an operator. */
const SEVERITY = {
  rejected: "critical",
  escalated: "critical",
  lapsed: "warning",
  cancelled: null,
} as const satisfies Record<EventData<"HANDOFF_FAILED">["state"], Severity | null>;

async function alert(
  { backgroundBus: bus, metrics, log }: EventContext,
  repository: Repository,
  event: FleetEvent<"HANDOFF_FAILED">,
): Promise<void> {
  const { handoffId, state, reason } = event.data;
  const severity = SEVERITY[state];
  if (state === "cancelled" || severity === null) return;
  const handoff = await found(repository, event.tenant, handoffId);
  const facts = {
    ...(handoff?.to_agent_type != null && { toAgentType: handoff.to_agent_type }),
    ...(handoff?.accepted_by != null && { acceptedBy: handoff.accepted_by }),
    ...(handoff?.recovery != null && { recoveryAttempt: handoff.recovery.attempt }),
  };
  // The id is that of the event, the same for every copy: it leads to the audit entry.
  const failed = alertOf("HANDOFF_FAILED", severity, {
    tenant: event.tenant,
    task: event.subject,
    occasion: String(event.sequence),
    nowMs: Date.parse(event.time),
    data: { handoffId, taskId: event.subject, state, reason, ...facts },
  });
  await publishAlert({ bus, metrics, log }, failed);
}
