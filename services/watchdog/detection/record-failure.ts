/** Records the failure of an agent and wakes its recovery. Any number of watchdogs may try; one succeeds. */
import type { DurableMessage } from "../../../shared/bus/bus.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { RecoveryPlace } from "../../../shared/records/recovery/due.ts";
import type { Sighting } from "../../../shared/records/recovery/observations.ts";
import type { NotedFailure } from "../../../shared/records/recovery-actions.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Controller } from "../../../shared/runtime/controller.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import {
  currentTraceparent,
  type TraceCarrier,
  withSpan,
} from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import type { ReportDamage } from "./damaged-head.ts";

/**
 * Throws when the store is unavailable. The failure is not recorded then, or the next call finds it recorded.
 */
export type RecordFailure = (
  place: RecoveryPlace,
  failure: Sighting,
  parent?: TraceCarrier,
) => Promise<NotedFailure>;

export interface FailureRecorderParts {
  readonly controller: Pick<Controller<RecoveryPlace>, "wake">;
  readonly reportDamage: ReportDamage;
  /** The agent types of the fleet. */
  readonly agentTypes: ReadonlySet<string>;
}

export function createFailureRecorder(
  { log, clock }: ServiceContext,
  { recoveryActions }: Pick<CheckpointRepository, "recoveryActions">,
  { controller, reportDamage, agentTypes }: FailureRecorderParts,
): RecordFailure {
  /** An agent names its own type. A task that is offered to an unknown type would be blocked. */
  const knownType = ({ agent_type: type }: Sighting): string | null =>
    type === null || agentTypes.has(type) ? type : null;
  return ({ tenant, task }, seen, parent) => {
    const failure = { ...seen, agent_type: knownType(seen) };
    return withSpan(
      "failure",
      { "fleet.task": task, "fleet.class": failure.class, "fleet.signal": failure.signal },
      async () => {
        const place = { tenant, task };
        const recorded = await recoveryActions
          .noteFailure(place, failure, currentTraceparent())
          .catch(async (error: unknown) => {
            await reportDamage(place, error);
            throw error;
          });
        const { signal, fence, agent_id, class: failureClass } = failure;
        const facts = { tenant, task_id: task, agent_id, fence, class: failureClass, signal };
        if (!recorded.applied) {
          log.debug({ ...facts, why: recorded.why }, "a failure was not recorded");
          return recorded;
        }
        const { state, due_at: dueAt = null } = recorded.head.recovery ?? {};
        log.warn({ ...facts, state, due_at: dueAt }, "an agent failed and its ownership was revoked");
        if (dueAt !== null && Date.parse(dueAt) <= clock.now()) await controller.wake(place);
        return recorded;
      },
      { parent },
    );
  };
}

/**
 * Terminates a message whose failure can never be recorded: it would be redelivered for ever, in the place of
 * others.
 */
export async function recordOrTerminate(
  log: Logger,
  message: DurableMessage,
  record: () => Promise<void>,
): Promise<void> {
  try {
    await record();
  } catch (error) {
    if (!(error instanceof FleetError) || error.retryable) throw error;
    const { subject, seq } = message;
    log.error({ error, subject, seq }, "the failure of an agent cannot be recorded");
    message.dead("no failure can be recorded for its task");
  }
}
