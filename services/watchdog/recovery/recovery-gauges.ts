/** Metrics of the recoveries in the store, by state, and of the owners that this instance monitors. */
import { RECOVERY_STATES } from "../../../shared/protocol/recovery-states.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { MonitoredOwners } from "../detection/monitored-owners.ts";

const EVERY_MS = 5_000;

export function startRecoveryGauges(
  { metrics, clock, log }: ServiceContext,
  { recoveryActions }: Pick<CheckpointRepository, "recoveryActions">,
  owners: MonitoredOwners,
): Stop {
  return startTicker({
    name: "recovery gauges",
    everyMs: EVERY_MS,
    jitter: 0.1,
    run: async () => {
      metrics.agentsWatched.set(owners.size);
      const counts = await recoveryActions.counts();
      for (const state of RECOVERY_STATES.filter((one) => one !== "idle"))
        metrics.recoveries.set({ state }, counts[state]);
    },
    clock,
    log,
  });
}
