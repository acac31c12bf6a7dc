/**
 * The sweep of handoffs: finds those that are due, whatever woke nobody: a request whose event was lost, an offer that nobody took in time,
 * an agent that took a task and wrote nothing.
 */
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import { startSweep } from "../../shared/runtime/periodic-sweep.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import type { Advancing } from "./handoff-controller.ts";

export function sweepHandoffs(
  { clock, log }: ServiceContext,
  { coordination }: Pick<CheckpointRepository, "coordination">,
  advancing: Advancing,
): Stop {
  return startSweep({
    name: "handoff sweep",
    due: (untilMs, limit) => coordination.dueHandoffs(untilMs, limit, advancing.isKeptBack),
    dueAt: ({ due_at }) => due_at,
    handle: (place) => advancing.attempt(place),
    clock,
    log,
  });
}
