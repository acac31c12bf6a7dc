/**
 * The sweep of recoveries: finds those that are due, whoever noted them: after a pause, after a watchdog died in between, when a person
 * asked. None while as many are under way as may be.
 */
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/service.ts";
import { startSweep } from "../../shared/runtime/sweep.ts";
import type { Recovering } from "./recovering.ts";

export function sweepRecoveries(
  { clock, log }: ServiceContext,
  { recovery }: Pick<CheckpointRepository, "recovery">,
  recovering: Recovering,
): Stop {
  return startSweep({
    name: "recovery sweep",
    due: (untilMs, limit) => recovery.due(untilMs, limit, recovering.isKeptBack),
    dueAt: (head) => head.recovery?.due_at ?? null,
    handle: ({ tenant, task_id: task }) => recovering.carryOn({ tenant, task }),
    pauseMs: () => recovering.fullForMs,
    clock,
    log,
  });
}
