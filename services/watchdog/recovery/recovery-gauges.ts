/** How recoveries stand, of all instances together, and how many agents this one watches, as numbers for whoever watches it. */
import { RECOVERY_STATES } from "../../../shared/protocol/recovery-states.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { Watches } from "../detection/watches.ts";

const EVERY_MS = 2_000;

export function startRecoveryGauges(
  { metrics, clock, log }: ServiceContext,
  { recovery }: Pick<CheckpointRepository, "recovery">,
  watches: Watches,
): Stop {
  return startTicker({
    name: "recovery gauges",
    everyMs: EVERY_MS,
    jitter: 0.1,
    run: async () => {
      metrics.agentsWatched.set(watches.size);
      const counts = await recovery.counts();
      for (const state of RECOVERY_STATES.filter((one) => one !== "idle"))
        metrics.recoveries.set({ state }, counts[state]);
    },
    clock,
    log,
  });
}
