/**
 * The controller of handoffs: takes the steps of a handoff that are due, one after the other, until the
 * handoff waits for an agent or has ended. A step that another instance took first is not taken again: its
 * transaction returns the handoff as it stands then.
 */
import { FleetError } from "../../shared/protocol/errors.ts";
import type { Handoff } from "../../shared/protocol/handoff-record.ts";
import type { HandoffPlace } from "../../shared/records/handoff/lists.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import { type Controller, startController } from "../../shared/runtime/controller.ts";
import { keptTrace } from "../../shared/runtime/observability/trace-context.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import { type HandoffStep, nextStep } from "./next-step.ts";
import type { BuildOffer, Offerable } from "./offer-builder.ts";

/** A handoff takes fewer steps in a row. More of them are a defect. */
const STEPS_MAX = 8;

type Repository = Pick<CheckpointRepository, "handoff" | "handoffActions">;

/**
 * A handoff is due when it was requested, when its offer has expired, and when its first checkpoint is late.
 */
export function startHandoffController(
  context: ServiceContext,
  repository: Repository,
  buildOffer: BuildOffer,
): Controller<HandoffPlace> {
  return startController<HandoffPlace>(
    {
      name: "handoffs",
      fieldsOf: ({ tenant, handoff_id }) => ({ tenant, handoff_id }),
      run: (place) => takeSteps(context.clock, repository, buildOffer, place),
      search: async (untilMs, limit, passOver) => {
        const handoffs = await repository.handoffActions.dueHandoffs(untilMs, limit, passOver);
        return handoffs.map(({ tenant, handoff_id, due_at }) => ({
          key: { tenant, handoff_id },
          dueAt: due_at,
        }));
      },
    },
    context,
  );
}

async function takeSteps(
  clock: Clock,
  repository: Repository,
  buildOffer: BuildOffer,
  place: HandoffPlace,
): Promise<void> {
  let handoff = await found(repository, place);
  for (let steps = 0; handoff !== null; steps += 1) {
    if (steps === STEPS_MAX) throw new FleetError("INTERNAL", "the handoff takes too many steps");
    let step: HandoffStep<Offerable> = nextStep(handoff, clock.now(), null);
    if (step.do === "build_offer") step = nextStep(handoff, clock.now(), await buildOffer(handoff));
    if (step.do === "nothing" || step.do === "wait" || step.do === "build_offer") return;
    handoff = await traced(repository, handoff, step);
  }
}

type Move = Exclude<HandoffStep<Offerable>, { readonly do: "nothing" | "wait" | "build_offer" }>;

async function found(repository: Repository, place: HandoffPlace): Promise<Handoff | null> {
  try {
    return await repository.handoff(place.tenant, { handoff_id: place.handoff_id });
  } catch (error) {
    if (error instanceof FleetError && error.code === "NOT_FOUND") return null;
    throw error;
  }
}

function traced(repository: Repository, handoff: Handoff, move: Move): Promise<Handoff | null> {
  const parent = keptTrace(handoff.traceparent);
  const attributes = { "fleet.handoff": handoff.handoff_id };
  return withSpan(`handoff ${move.do}`, attributes, () => make(repository, handoff, move), { parent });
}

/** Resolves with the handoff as it stands afterwards, also when another instance made the move. */
async function make(
  { handoffActions }: Repository,
  { tenant, handoff_id: id, attempt }: Handoff,
  move: Move,
): Promise<Handoff | null> {
  switch (move.do) {
    case "reject":
      return (await handoffActions.rejectHandoff(tenant, id, move.failure)).handoff;
    case "offer":
      return (await handoffActions.offerHandoff(tenant, id, { ...move.offer, attempt: attempt + 1 })).handoff;
    case "escalate": {
      const escalation = { ...move.failure, attempt, toAgentType: move.toAgentType };
      return (await handoffActions.escalateHandoff(tenant, id, escalation)).handoff;
    }
    case "lapse":
      return (await handoffActions.lapseHandoff(tenant, id)).handoff;
  }
}
