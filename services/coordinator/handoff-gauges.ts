/** Metrics of the handoffs in the store, by state. Every instance reports the same numbers. */
import { HANDOFF_STATES, type HandoffState, isOpenHandoff } from "../../shared/protocol/handoff-states.ts";
import { readFailedAcceptances, readHandoffCounts } from "../../shared/records/kv/counters.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import type { Store } from "../../shared/store/store.ts";

const READ_DEADLINE_MS = 2_000;

export function startHandoffGauges(context: ServiceContext & { readonly store: Store }): Stop {
  const { store, metrics, log } = context;
  return metrics.registry.measure({
    name: "handoffs",
    run: async () => {
      const [counts, failedAcceptances] = await store.read(
        { label: "handoff_counts", deadlineMs: READ_DEADLINE_MS },
        (reader) => Promise.all([readHandoffCounts(reader), readFailedAcceptances(reader)]),
      );
      for (const state of HANDOFF_STATES.filter(isOpenHandoff))
        metrics.handoffsOpen.set({ state }, counts[state]);
      const rate = successRateOf(counts, failedAcceptances);
      if (rate !== null) metrics.handoffSuccessRate.set(rate);
    },
    log,
  });
}

/**
 * The share of confirmed handoffs. A cancelled handoff neither succeeded nor failed, unless the agent that had accepted it failed.
 * null: none has ended.
 */
export function successRateOf(
  { confirmed, rejected, escalated, lapsed }: Readonly<Record<HandoffState, number>>,
  failedAcceptances: number,
): number | null {
  const all = confirmed + rejected + escalated + lapsed + failedAcceptances;
  return all > 0 ? confirmed / all : null;
}
