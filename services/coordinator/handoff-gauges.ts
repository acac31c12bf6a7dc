/** Metrics of the handoffs in the store, by state. Every instance reports the same numbers. */
import { HANDOFF_STATES, isOpenHandoff } from "../../shared/protocol/handoff-states.ts";
import { readHandoffCounts } from "../../shared/records/kv/counters.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { startTicker } from "../../shared/runtime/ticker.ts";
import type { Store } from "../../shared/store/store.ts";

const EVERY_MS = 2_000;
const READ_DEADLINE_MS = 2_000;

export function startHandoffGauges(context: ServiceContext & { readonly store: Store }): Stop {
  const { store, metrics, clock, log } = context;
  return startTicker({
    name: "handoff gauges",
    everyMs: EVERY_MS,
    jitter: 0.1,
    run: async () => {
      const counts = await store.read(
        { label: "handoff_counts", deadlineMs: READ_DEADLINE_MS },
        readHandoffCounts,
      );
      const ended = HANDOFF_STATES.filter((state) => !isOpenHandoff(state));
      for (const state of HANDOFF_STATES.filter(isOpenHandoff))
        metrics.handoffsOpen.set({ state }, counts[state]);
      const all = ended.reduce((sum, state) => sum + counts[state], 0);
      if (all > 0) metrics.handoffSuccessRate.set(counts.confirmed / all);
    },
    clock,
    log,
  });
}
