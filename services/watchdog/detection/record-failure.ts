/** Noting a failure, and going on from there at once when that is due. Any number of watchdogs may note the same one; one of them does. */
import type { Noted, Sighting } from "../../../shared/records/recovery/coordination.ts";
import type { RecoveryPlace } from "../../../shared/records/recovery/due.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Controller } from "../../../shared/runtime/controller.ts";
import {
  currentTraceparent,
  type TraceCarrier,
  withSpan,
} from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import type { MeetDamage } from "./damaged-head.ts";

/** Throws when the store is away; then nothing was noted, or it is found noted next time. */
export type NoteFailure = (place: RecoveryPlace, sighting: Sighting, parent?: TraceCarrier) => Promise<Noted>;

export interface NotingParts {
  readonly controller: Pick<Controller<RecoveryPlace>, "wake">;
  readonly meetDamage: MeetDamage;
  /** Those that there are. */
  readonly agentTypes: ReadonlySet<string>;
}

export function createNoting(
  { log, clock }: ServiceContext,
  { recovery }: Pick<CheckpointRepository, "recovery">,
  { controller, meetDamage, agentTypes }: NotingParts,
): NoteFailure {
  /** An agent names its type itself. One that nobody has would be offered the task in vain, and the task be blocked. */
  const knownOf = ({ agent_type: type }: Sighting): string | null =>
    type === null || agentTypes.has(type) ? type : null;
  return ({ tenant, task }, seen, parent) => {
    const sighting = { ...seen, agent_type: knownOf(seen) };
    return withSpan(
      "failure",
      { "fleet.task": task, "fleet.class": sighting.class, "fleet.signal": sighting.signal },
      async () => {
        const place = { tenant, task };
        const noted = await recovery
          .noteFailure(place, sighting, currentTraceparent())
          .catch(async (error: unknown) => {
            await meetDamage(place, error);
            throw error;
          });
        const { signal, fence, agent_id, class: failureClass } = sighting;
        const facts = { tenant, task_id: task, agent_id, fence, class: failureClass, signal };
        if (!noted.applied) {
          log.debug({ ...facts, why: noted.why }, "nothing is to be done about a failure");
          return noted;
        }
        const { state, due_at: dueAt = null } = noted.head.recovery ?? {};
        log.warn({ ...facts, state, due_at: dueAt }, "an agent failed, and lost its task");
        if (dueAt !== null && Date.parse(dueAt) <= clock.now()) await controller.wake(place);
        return noted;
      },
      { parent },
    );
  };
}
