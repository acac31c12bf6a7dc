/**
 * What is told about handoffs: their events, out of durable consumers that all coordinators share, so that each event is seen to by
 * one of them. A request is carried on at once; every change is counted and logged; of a failure people are alerted. What happens here
 * twice, after a crash, does no harm. Requests have a consumer of their own, since somebody waits for them.
 */

import type { Bus, DurableMessage } from "../../shared/bus/bus.ts";
import { startConsuming } from "../../shared/bus/consume/background-consumer.ts";
import { consumerOf, type EventShare } from "../../shared/bus/consume/event-consumer.ts";
import { publishAlert } from "../../shared/bus/publish/publish-alert.ts";
import { decodeBody } from "../../shared/integrity/wire.ts";
import { alertOf } from "../../shared/protocol/alerts.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import { type EventData, type EventType, type FleetEvent, readEvent } from "../../shared/protocol/events.ts";
import type { Handoff } from "../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../shared/protocol/handoff-states.ts";
import type { Severity } from "../../shared/protocol/severity.ts";
import { CONTENT_TYPES } from "../../shared/protocol/subjects.ts";
import type { HandoffPlace } from "../../shared/records/handoff/lists.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import type { Advancing } from "./handoff-controller.ts";

/** The events of handoffs, each with the state that it says a handoff is in; null: its data say which. */
const STATE_OF = {
  AGENT_HANDOFF: "requested",
  HANDOFF_VALIDATED: "validated",
  HANDOFF_OFFERED: "offered",
  HANDOFF_ACKNOWLEDGED: "accepted",
  HANDOFF_CONFIRMED: "confirmed",
  HANDOFF_FAILED: null,
} as const satisfies { readonly [T in EventType]?: HandoffState | null };

const TYPES = Object.keys(STATE_OF) as (keyof typeof STATE_OF)[];

const REQUESTS: EventShare = { durable: "coordinator", types: ["AGENT_HANDOFF"], underWay: 128 };
/** Few at once: they are about what has happened, and must not keep the requests waiting. */
const CHANGES: EventShare = {
  durable: "coordinator-changes",
  types: TYPES.filter((type) => type !== "AGENT_HANDOFF"),
  underWay: 4,
};

type News = { [T in keyof typeof STATE_OF]: FleetEvent<T> }[keyof typeof STATE_OF];

export interface NewsContext extends ServiceContext {
  readonly backgroundBus: Bus;
}

/** Starts in the background: the sweep finds every handoff while the events cannot be had. */
export function startNews(
  context: NewsContext,
  repository: Pick<CheckpointRepository, "handoff">,
  advancing: Advancing,
): Stop {
  const handle = (message: DurableMessage): Promise<void> =>
    withSpan("handoff event", {}, () => seeTo(context, repository, advancing, message), {
      parent: message.headers,
      kind: "consumer",
    });
  const { backgroundBus: bus, clock, log } = context;
  const consumers = [REQUESTS, CHANGES].map((share) => consumerOf(share, handle));
  return startConsuming({ bus, clock, log }, consumers);
}

async function seeTo(
  context: NewsContext,
  repository: Pick<CheckpointRepository, "handoff">,
  advancing: Advancing,
  message: DurableMessage,
): Promise<void> {
  const event = read(message, context.log);
  if (event === null) return message.dead("not an event of a handoff");
  const { tenant, subject: task } = event;
  const { handoffId: handoff_id } = event.data;
  const state = event.type === "HANDOFF_FAILED" ? event.data.state : STATE_OF[event.type];
  // First, because somebody waits for it.
  if (event.type === "AGENT_HANDOFF") await carryOn(advancing, { tenant, handoff_id }, message.deliveries);
  if (event.type === "HANDOFF_FAILED") await alert(context, repository, event);
  if (event.type === "HANDOFF_ACKNOWLEDGED") {
    const handoff = await known(repository, tenant, handoff_id);
    const durationMs = Date.parse(event.time) - Date.parse(handoff?.requested_at ?? "");
    if (!Number.isNaN(durationMs)) context.metrics.handoffDurationMs.observe(Math.max(0, durationMs));
  }
  context.metrics.handoffsTotal.inc({ state });
  const reason = event.type === "HANDOFF_FAILED" ? { reason: event.data.reason } : {};
  context.log.info({ tenant, task_id: task, handoff_id, state, ...reason }, "handoff changed");
}

/** null for what no transaction of the fleet has written: it would come again for ever, and keep the others waiting. */
function read({ body, subject, seq }: DurableMessage, log: Logger): News | null {
  try {
    return readEvent(decodeBody(body, CONTENT_TYPES.json), TYPES) as News;
  } catch (error) {
    log.error({ error, subject, seq }, "message is not an event of a handoff");
    return null;
  }
}

/** After these the sweep alone goes on trying: a handoff that cannot be carried on must not keep the next ones waiting. */
const TRIES = 3;

function carryOn(advancing: Advancing, place: HandoffPlace, tries: number): Promise<void> {
  return tries < TRIES ? advancing.advance(place) : advancing.attempt(place);
}

/** null when the store does not have it, as after a restore. */
async function known(
  repository: Pick<CheckpointRepository, "handoff">,
  tenant: string,
  id: string,
): Promise<Handoff | null> {
  try {
    return await repository.handoff(tenant, { handoff_id: id });
  } catch (error) {
    if (error instanceof FleetError && (error.code === "NOT_FOUND" || error.code === "CORRUPT")) return null;
    throw error;
  }
}

/** Whoever takes a handoff back knows that it ended; the other ends need somebody. */
const SEVERITY = {
  rejected: "critical",
  escalated: "critical",
  lapsed: "warning",
  cancelled: null,
} as const satisfies Record<EventData<"HANDOFF_FAILED">["state"], Severity | null>;

async function alert(
  { backgroundBus: bus, metrics, log }: NewsContext,
  repository: Pick<CheckpointRepository, "handoff">,
  event: FleetEvent<"HANDOFF_FAILED">,
): Promise<void> {
  const { handoffId, state, reason } = event.data;
  const severity = SEVERITY[state];
  if (state === "cancelled" || severity === null) return;
  const handoff = await known(repository, event.tenant, handoffId);
  const about = {
    ...(handoff?.to_agent_type != null && { toAgentType: handoff.to_agent_type }),
    ...(handoff?.accepted_by != null && { acceptedBy: handoff.accepted_by }),
    ...(handoff?.recovery != null && { recoveryAttempt: handoff.recovery.attempt }),
  };
  // By the audit entry to look at, so that it has the event's own id: the same for every copy.
  const told = alertOf("HANDOFF_FAILED", severity, {
    tenant: event.tenant,
    task: event.subject,
    occasion: String(event.sequence),
    nowMs: Date.parse(event.time),
    data: { handoffId, taskId: event.subject, state, reason, ...about },
  });
  await publishAlert({ bus, metrics, log }, told);
}
