// Throttles background work so that requests come first. After each step the work rests a moment and measures
// how busy its thread is without it. On a busy thread it then rests several times as long as the step took,
// and catches up when there is time.

import type { Clock } from "./clock.ts";

/** How long to rest to measure how busy the event loop is without the work. */
const SAMPLE_MS = 5;
/** The share of its time from which the event loop counts as busy with other work. */
const BUSY = 0.3;
const PAUSE_FACTOR = 4;
const PAUSE_MS_MAX = 2_000;

export function createBackgroundThrottle(clock: Clock) {
  let endedAt = clock.monotonic();
  return {
    /** To be awaited between two steps. */
    async pause(signal: AbortSignal): Promise<void> {
      const stepMs = clock.monotonic() - endedAt;
      const before = performance.eventLoopUtilization();
      await clock.sleep(SAMPLE_MS, signal);
      const { utilization } = performance.eventLoopUtilization(before);
      if (utilization > BUSY) await clock.sleep(Math.min(stepMs * PAUSE_FACTOR, PAUSE_MS_MAX), signal);
      endedAt = clock.monotonic();
    },
  };
}
