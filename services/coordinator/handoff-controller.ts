/**
 * Carries handoffs on, one step after the other, until it is somebody else's turn. Any number of instances may do so at once: a step
 * that another made first is not made again, and the record is looked at anew. In one instance a handoff is in one hand.
 */
import { FleetError } from "../../shared/protocol/errors.ts";
import type { Handoff } from "../../shared/protocol/handoff-record.ts";
import type { HandoffPlace } from "../../shared/records/handoff/lists.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import { KeepingBack } from "../../shared/runtime/keyed-backoff.ts";
import { keptTrace } from "../../shared/runtime/observability/trace-context.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import { nextStep, type Step } from "./next-step.ts";
import type { Examine, Offerable } from "./offer-builder.ts";

export interface Advancing {
  /** Does what there is to do. Throws when something is away; then another try, by anybody, can help. */
  advance(place: HandoffPlace): Promise<void>;
  /** The same; a failure is logged and keeps the handoff back for a while. */
  attempt(place: HandoffPlace): Promise<void>;
  /** Whether a handoff is kept back. */
  isKeptBack(place: HandoffPlace): boolean;
}

/** More than a handoff can make in a row: something else is wrong then. */
const STEPS_MAX = 8;

export function createAdvancing(
  { clock, log }: ServiceContext,
  repository: CheckpointRepository,
  examine: Examine,
): Advancing {
  const inHand = new Map<string, Promise<void>>();
  const keptBack = new KeepingBack(clock);

  const advance = async (place: HandoffPlace): Promise<void> => {
    const name = nameOf(place);
    const underWay = inHand.get(name);
    if (underWay !== undefined) return underWay;
    const work = carryOn(place);
    inHand.set(name, work);
    try {
      await work;
      keptBack.succeeded(name);
    } finally {
      inHand.delete(name);
    }
  };

  const carryOn = async (place: HandoffPlace): Promise<void> => {
    let handoff = await found(repository, place);
    for (let steps = 0; handoff !== null; steps += 1) {
      if (steps === STEPS_MAX) throw new FleetError("INTERNAL", "the handoff does not come to rest");
      let step: Step<Offerable> = nextStep(handoff, clock.now(), null);
      if (step.do === "examine") step = nextStep(handoff, clock.now(), await examine(handoff));
      if (step.do === "nothing" || step.do === "wait" || step.do === "examine") return;
      handoff = await traced(handoff, step);
    }
  };

  const traced = (handoff: Handoff, step: Taken): Promise<Handoff | null> =>
    withSpan(
      `handoff ${step.do}`,
      { "fleet.handoff": handoff.handoff_id },
      () => take(repository, handoff, step),
      { parent: keptTrace(handoff.traceparent) },
    );

  return {
    advance,
    async attempt(place) {
      try {
        await advance(place);
      } catch (error) {
        const times = keptBack.failed(nameOf(place));
        const { tenant, handoff_id } = place;
        log.warn({ error, tenant, handoff_id, times }, "a handoff could not be carried on");
      }
    },
    isKeptBack: (place) => keptBack.has(nameOf(place)),
  };
}

type Taken = Exclude<Step<Offerable>, { readonly do: "nothing" | "wait" | "examine" }>;

const nameOf = ({ tenant, handoff_id }: HandoffPlace): string => `${tenant}/${handoff_id}`;

async function found(repository: CheckpointRepository, place: HandoffPlace): Promise<Handoff | null> {
  try {
    return await repository.handoff(place.tenant, { handoff_id: place.handoff_id });
  } catch (error) {
    if (error instanceof FleetError && error.code === "NOT_FOUND") return null;
    throw error;
  }
}

/** Resolves with the handoff as it is then, whoever made the step. */
async function take(
  repository: CheckpointRepository,
  { tenant, handoff_id: id, attempt }: Handoff,
  step: Taken,
): Promise<Handoff | null> {
  switch (step.do) {
    case "reject":
      return (await repository.coordination.rejectHandoff(tenant, id, step.failure)).handoff;
    case "offer":
      return (await repository.coordination.offerHandoff(tenant, id, { ...step.offer, attempt: attempt + 1 }))
        .handoff;
    case "escalate":
      return (
        await repository.coordination.escalateHandoff(tenant, id, {
          ...step.failure,
          attempt,
          toAgentType: step.toAgentType,
        })
      ).handoff;
    case "lapse":
      return (await repository.coordination.lapseHandoff(tenant, id)).handoff;
  }
}
