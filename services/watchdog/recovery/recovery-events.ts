/**
 * What is told about recoveries: their events, out of durable consumers that all watchdogs share, so that each event is seen to by one of
 * them. What a person asked for is carried on at once; every change is counted and logged; of a task that waits for a person people are
 * alerted. What happens here twice, after a crash, does no harm.
 */

import type { Bus, DurableMessage } from "../../../shared/bus/bus.ts";
import { startConsuming } from "../../../shared/bus/consume/background-consumer.ts";
import { consumerOf, type EventShare } from "../../../shared/bus/consume/event-consumer.ts";
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { decodeBody } from "../../../shared/integrity/wire.ts";
import { clean } from "../../../shared/prompts/quotation.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { type FleetEvent, readEvent } from "../../../shared/protocol/events.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Recovery } from "../../../shared/protocol/recovery-record.ts";
import { BLOCK_REASONS } from "../../../shared/protocol/recovery-states.ts";
import { CONTENT_TYPES } from "../../../shared/protocol/subjects.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { withSpan } from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import type { Recovering } from "./recovery-controller.ts";

const TYPES = [
  "AGENT_FAILED",
  "RECOVERY_REQUESTED",
  "RECOVERY_INITIATED",
  "RECOVERY_COMPLETED",
  "RECOVERY_SETTLED",
  "TASK_BLOCKED",
] as const;
type Type = (typeof TYPES)[number];
type News = { [T in Type]: FleetEvent<T> }[Type];

const REQUESTS: EventShare = { durable: "watchdog", types: ["RECOVERY_REQUESTED"], underWay: 64 };
/** Few at once: they are about what has happened, and must not keep recoveries waiting. */
const CHANGES: EventShare = {
  durable: "watchdog-changes",
  types: TYPES.filter((type) => type !== "RECOVERY_REQUESTED"),
  underWay: 4,
};

export interface NewsContext extends ServiceContext {
  readonly backgroundBus: Bus;
}

type Repository = Pick<CheckpointRepository, "recovery">;

/** Starts in the background: the sweep finds every recovery while the events cannot be had. */
export function startNews(context: NewsContext, repository: Repository, recovering: Recovering): Stop {
  const { backgroundBus: bus, clock, log } = context;
  const handle = (message: DurableMessage): Promise<void> =>
    withSpan("recovery event", {}, () => seeTo(context, repository, recovering, message), {
      parent: message.headers,
      kind: "consumer",
    });
  const consumers = [REQUESTS, CHANGES].map((share) => consumerOf(share, handle));
  return startConsuming({ bus, clock, log }, consumers);
}

async function seeTo(
  context: NewsContext,
  repository: Repository,
  recovering: Recovering,
  message: DurableMessage,
): Promise<void> {
  const event = read(context, message);
  if (event === null) return message.dead("not an event of a recovery");
  const { tenant, subject: task } = event;
  // A handoff that nobody took is told by the coordinator.
  if (event.type === "TASK_BLOCKED" && event.data.handoffId !== undefined) return;
  // First, because somebody waits for it.
  if (event.type === "RECOVERY_REQUESTED") await recovering.carryOn({ tenant, task });
  const [head] = await repository.recovery.heads(tenant, [task]);
  const recovery = head?.recovery ?? null;
  if (event.type === "TASK_BLOCKED") await alert(context, event, recovery);
  count(context, event, recovery);
  const { type, data } = event;
  context.log.info({ tenant, task_id: task, event: type, ...told(data) }, "recovery changed");
}

/** null for what no transaction of the fleet has written: it would come again for ever, and keep the others waiting. */
function read({ log }: NewsContext, { body, subject, seq }: DurableMessage): News | null {
  try {
    return readEvent(decodeBody(body, CONTENT_TYPES.json), TYPES) as News;
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    log.error({ error, subject, seq }, "message is not an event of a recovery");
    return null;
  }
}

/** The task stands in the line already. */
function told({ taskId: _, ...data }: News["data"]): object {
  return data;
}

function count({ metrics }: NewsContext, event: News, recovery: Recovery | null): void {
  const { type } = event;
  if (type === "AGENT_FAILED")
    metrics.failuresTotal.inc({ class: event.data.class, signal: event.data.signal });
  if (!isOutcome(type)) return;
  metrics.recoveryAttemptsTotal.inc({
    class: recovery?.failure?.class ?? "unknown",
    outcome: OUTCOMES[type],
  });
  if (type !== "RECOVERY_COMPLETED") return;
  const tookMs = Date.parse(event.time) - Date.parse(recovery?.failure?.noted_at ?? "");
  // After a restore, or when the next agent has failed as well, nobody knows any more.
  if (tookMs >= 0) metrics.recoveryResumeMs.observe(tookMs);
}

const OUTCOMES = {
  RECOVERY_INITIATED: "initiated",
  RECOVERY_COMPLETED: "completed",
  TASK_BLOCKED: "blocked",
} as const satisfies { readonly [T in Type]?: string };

function isOutcome(type: Type): type is keyof typeof OUTCOMES {
  return Object.hasOwn(OUTCOMES, type);
}

async function alert(
  { backgroundBus: bus, metrics, log }: NewsContext,
  event: FleetEvent<"TASK_BLOCKED">,
  recovery: Recovery | null,
): Promise<void> {
  const reason = BLOCK_REASONS.find((one) => one === event.data.reason);
  // The alert of the same block before is open again.
  if (reason === undefined || event.data.alertedSeq !== undefined) return;
  const failure = recovery?.failure ?? null;
  // Somebody took the task from its agent, which had not failed.
  const failed = failure?.signal === "request" ? null : failure;
  // By the audit entry to look at, so that it has the event's own id: the same for every copy.
  const blocked = alertOf("RECOVERY_BLOCKED", "critical", {
    tenant: event.tenant,
    task: event.subject,
    occasion: String(event.sequence),
    nowMs: Date.parse(event.time),
    data: {
      taskId: event.subject,
      reason,
      class: failed?.class ?? null,
      agentId: failed?.agent_id ?? null,
      details: detailsOf(recovery),
      attempts: recovery?.attempts ?? 0,
    },
  });
  await publishAlert({ bus, metrics, log }, blocked);
}

/** An alert leaves the fleet, for chats and pagers, and an agent may have said anything. */
function detailsOf(recovery: Recovery | null): string | null {
  const said = recovery?.blocked?.details ?? recovery?.failure?.details ?? null;
  if (said === null) return null;
  const { text, cut } = clean(said, LIMITS.alert_details_chars_max);
  return cut === 0 ? text : `${text} …`;
}
