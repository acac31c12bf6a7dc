/**
 * Handoffs that failed after an agent had accepted them, or because their checkpoint is corrupt. They are
 * recorded as failures, so a recovery continues the task from an earlier checkpoint or with another agent.
 */
import { corruptFailure, lapsedFailure } from "../../../shared/lifecycle/recovery.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { keptTrace } from "../../../shared/runtime/observability/trace-context.ts";
import type { TraceCarrier } from "../../../shared/runtime/observability/tracing.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import {
  type EventContext,
  type EventOf,
  startEventConsumer,
} from "../../../shared/service-host/event-consumer.ts";
import { type RecordFailure, recordOrTerminate } from "./record-failure.ts";

type Repository = Pick<CheckpointRepository, "handoff" | "recoveryActions">;

export function startFailedHandoffs(
  context: EventContext,
  repository: Repository,
  recordFailure: RecordFailure,
): Stop {
  return startEventConsumer(context, {
    name: "failed handoff",
    durable: "watchdog-handoffs",
    types: ["HANDOFF_FAILED"],
    inProgressMax: 64,
    handle: (event, message) =>
      recordOrTerminate(context.log, message, () =>
        recordFailedHandoff(repository, recordFailure, event, message.headers),
      ),
  });
}

async function recordFailedHandoff(
  repository: Repository,
  recordFailure: RecordFailure,
  { tenant, subject: task, data }: EventOf<"HANDOFF_FAILED">,
  carrier: TraceCarrier,
): Promise<void> {
  const hasLapsed = data.state === "lapsed";
  if (!hasLapsed && data.reason !== "hash_broken") return;
  const handoff = await newestHandoff(repository, tenant, task);
  // The task has been handed off again since.
  if (handoff?.handoff_id !== data.handoffId) return;
  const parent = handoff.traceparent === undefined ? carrier : keptTrace(handoff.traceparent);
  if (hasLapsed) {
    await recordFailure({ tenant, task }, lapsedFailure(handoff), parent);
    return;
  }
  const [head] = await repository.recoveryActions.heads(tenant, [task]);
  // A task that is blocked for another reason waits for an operator already.
  if (head == null || (head.blocked !== null && head.blocked.reason !== "checkpoint_corrupt")) return;
  await recordFailure({ tenant, task }, corruptFailure(handoff, head.fence), parent);
}

async function newestHandoff(repository: Repository, tenant: string, task: string): Promise<Handoff | null> {
  try {
    return await repository.handoff(tenant, { task_id: task });
  } catch (error) {
    // This happens after a restore of the store.
    if (error instanceof FleetError && error.code === "NOT_FOUND") return null;
    throw error;
  }
}
