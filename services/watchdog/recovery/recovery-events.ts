/**
 * The events of recoveries. An operator's request wakes the controller. Every change is counted and logged,
 * and a blocked task alerts operators. Requests have a consumer of their own, because operators wait for
 * them.
 */
import { publishAlert } from "../../../shared/bus/publish/publish-alert.ts";
import { clean } from "../../../shared/prompts/quotation.ts";
import { alertOf } from "../../../shared/protocol/alerts.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Recovery } from "../../../shared/protocol/recovery-record.ts";
import { BLOCK_REASONS } from "../../../shared/protocol/recovery-states.ts";
import type { Task } from "../../../shared/protocol/task.ts";
import type { RecoveryPlace } from "../../../shared/records/recovery/due.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Controller } from "../../../shared/runtime/controller.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import {
  type EventContext,
  type EventOf,
  startEventConsumer,
} from "../../../shared/service-host/event-consumer.ts";

const CHANGES = [
  "AGENT_FAILED",
  "RECOVERY_INITIATED",
  "RECOVERY_COMPLETED",
  "RECOVERY_SETTLED",
  "TASK_BLOCKED",
] as const;

type RecoveryEvent = EventOf<"RECOVERY_REQUESTED" | (typeof CHANGES)[number]>;
type Repository = Pick<CheckpointRepository, "recoveryActions">;

export function startRecoveryEvents(
  context: EventContext,
  repository: Repository,
  controller: Pick<Controller<RecoveryPlace>, "wake">,
): Stop {
  const stops = [
    startEventConsumer(context, {
      name: "recovery event",
      durable: "watchdog",
      types: ["RECOVERY_REQUESTED"],
      inProgressMax: 64,
      handle: async (event) => {
        await controller.wake({ tenant: event.tenant, task: event.subject });
        logChange(context, event);
      },
    }),
    startEventConsumer(context, {
      name: "recovery event",
      durable: "watchdog-changes",
      types: CHANGES,
      // Few: they only report, and must not compete with recoveries.
      inProgressMax: 4,
      handle: async (event) => {
        // The coordinator reports the handoffs that no agent accepted.
        if (event.type === "TASK_BLOCKED" && event.data.handoffId !== undefined) return;
        const [head] = await repository.recoveryActions.heads(event.tenant, [event.subject]);
        const recovery = head?.recovery ?? null;
        if (event.type === "TASK_BLOCKED") await alert(context, event, head ?? null);
        count(context, event, recovery);
        logChange(context, event);
      },
    }),
  ];
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}

/** Reasons and details can be the words of a person or an agent, which are no part of a log. */
function factsOf(data: object): object {
  const { taskId: _task, reason: _reason, details: _details, ...facts } = data as Record<string, unknown>;
  return facts;
}

function logChange({ log }: EventContext, { type, tenant, subject, data }: RecoveryEvent): void {
  log.info({ tenant, task_id: subject, event: type, ...factsOf(data) }, "recovery changed");
}

const OUTCOMES = {
  RECOVERY_INITIATED: "initiated",
  RECOVERY_COMPLETED: "completed",
  TASK_BLOCKED: "blocked",
} as const;

function count({ metrics }: EventContext, event: RecoveryEvent, recovery: Recovery | null): void {
  if (event.type === "RECOVERY_REQUESTED" || event.type === "RECOVERY_SETTLED") return;
  if (event.type === "AGENT_FAILED") {
    metrics.failuresTotal.inc({ class: event.data.class, signal: event.data.signal });
    return;
  }
  const failure = recovery?.failure ?? null;
  // Nothing failed where an operator asked for the attempt.
  const failureClass = failure?.signal === "request" ? "request" : (failure?.class ?? "unknown");
  metrics.recoveryAttemptsTotal.inc({ class: failureClass, outcome: OUTCOMES[event.type] });
  if (event.type !== "RECOVERY_COMPLETED") return;
  const durationMs = Date.parse(event.time) - Date.parse(recovery?.failure?.noted_at ?? "");
  // After a restore, or when the next agent has failed as well, the duration is unknown.
  if (durationMs >= 0) metrics.recoveryResumeMs.observe(durationMs);
}

async function alert(
  { backgroundBus: bus, metrics, log }: EventContext,
  event: FleetEvent<"TASK_BLOCKED">,
  task: Task | null,
): Promise<void> {
  const reason = BLOCK_REASONS.find((one) => one === event.data.reason);
  // The alert of an earlier block for the same reason is open again.
  if (reason === undefined || event.data.alertedSeq !== undefined) return;
  const recovery = task?.recovery ?? null;
  const failure = recovery?.failure ?? null;
  // After a request the previous agent has lost its task without having failed.
  const failed = failure?.signal === "request" ? null : failure;
  // The id is that of the event, the same for every copy: it leads to the audit entry.
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
      details: detailsOf(task),
      attempts: recovery?.attempts ?? 0,
    },
  });
  await publishAlert({ bus, metrics, log }, blocked);
}

/** Cleaned and cut: an alert leaves the fleet, for chats and pagers, and the text may come from an agent. */
function detailsOf(task: Task | null): string | null {
  const details = task?.blocked?.details ?? task?.recovery?.failure?.details ?? null;
  if (details === null) return null;
  const { text, cut } = clean(details, LIMITS.alert_details_chars_max);
  return cut === 0 ? text : `${text} …`;
}
