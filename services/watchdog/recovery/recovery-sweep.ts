/**
 * The sweep of recoveries: finds those that are due, whoever noted them: after a pause, after a watchdog died in between, when a person
 * asked. Those of whose kind as many are under way as may be keep none of the others waiting.
 */
import type { Task } from "../../../shared/protocol/task.ts";
import { duePlaceOf } from "../../../shared/records/recovery/due.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { startSweep } from "../../../shared/runtime/periodic-sweep.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import type { Recovering } from "./recovery-controller.ts";

export function sweepRecoveries(
  { clock, log }: ServiceContext,
  { recovery }: Pick<CheckpointRepository, "recovery">,
  recovering: Recovering,
): Stop {
  const isKeptBack = (head: Task): boolean => recovering.isKeptBack(duePlaceOf(head));
  return startSweep({
    name: "recovery sweep",
    // By the index, so that they keep none of the others out, and by the heads, since the index may be damaged.
    due: async (untilMs, limit) => {
      const heads = await recovery.due(untilMs, limit, recovering.isKeptBack);
      return heads.filter((head) => !isKeptBack(head));
    },
    dueAt: (head) => head.recovery?.due_at ?? null,
    // Since they were read, others may have filled their kind.
    handle: async (head) => {
      if (!isKeptBack(head)) await recovering.carryOn(duePlaceOf(head));
    },
    againMs: () => recovering.roomInMs,
    clock,
    log,
  });
}
