/** Metrics of the recoveries in the store, by state, and of the owners that this instance monitors. */
import { RECOVERY_STATES } from "../../../shared/protocol/recovery-states.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import type { MonitoredOwners } from "../detection/monitored-owners.ts";

export function startRecoveryGauges(
  { metrics, log }: ServiceContext,
  { recoveryActions }: Pick<CheckpointRepository, "recoveryActions">,
  owners: MonitoredOwners,
): Stop {
  return metrics.registry.measure({
    name: "recoveries",
    run: async () => {
      metrics.agentsWatched.set(owners.size);
      const counts = await recoveryActions.counts();
      for (const state of RECOVERY_STATES.filter((one) => one !== "idle"))
        metrics.recoveries.set({ state }, counts[state]);
    },
    log,
  });
}
