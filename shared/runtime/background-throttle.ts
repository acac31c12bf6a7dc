// Throttles background work so that requests come first. Before each step it measures how busy the thread is
// without the work. On a busy thread it rests several times as long as the last step took, and catches up when
// there is time. Work that waited for longer than any rest begins at once: an idle fleet has nothing to measure.

import type { Clock } from "./clock.ts";

/** How long to rest to measure how busy the event loop is without the work. */
const SAMPLE_MS = 5;
/** The share of its time from which the event loop counts as busy with other work. */
const BUSY = 0.3;
export const PAUSE_FACTOR = 4;
/** Below the time that a search waits for the index, so that a long step does not fail the search. */
const PAUSE_MS_MAX = 1_000;

export interface ThrottleOptions {
  /** Limits the rest on a busy thread, for work that must keep up with the requests. */
  readonly pauseMsMax?: () => number;
  /** How long a rest on a busy thread is, in steps. */
  readonly pauseFactor?: () => number;
}

export function createBackgroundThrottle(
  clock: Clock,
  { pauseMsMax = () => PAUSE_MS_MAX, pauseFactor = () => PAUSE_FACTOR }: ThrottleOptions = {},
) {
  let lastStepMs = 0;
  let endedAt = clock.monotonic();

  async function rest(signal: AbortSignal): Promise<void> {
    if (clock.monotonic() - endedAt > PAUSE_MS_MAX) return;
    const before = performance.eventLoopUtilization();
    await clock.sleep(SAMPLE_MS, signal);
    const { utilization } = performance.eventLoopUtilization(before);
    if (utilization > BUSY) await clock.sleep(Math.min(lastStepMs * pauseFactor(), pauseMsMax()), signal);
  }

  return {
    /**
     * Rests, then does one step. The wait for new work must stay outside the step: as a part of it, it would
     * make the next rest longer.
     */
    async step<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
      await rest(signal);
      const startedAt = clock.monotonic();
      try {
        return await work();
      } finally {
        endedAt = clock.monotonic();
        lastStepMs = endedAt - startedAt;
      }
    },
  };
}
