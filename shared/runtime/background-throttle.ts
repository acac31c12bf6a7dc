// Answering comes before work in the background: after each step the work rests a while and looks how busy its thread is
// without it. When others need the time, it rests several times as long as the step took, and catches up when there is time.

import type { Clock } from "./clock.ts";

/** How long to rest to see how busy the event loop is without the work. */
const LOOK_MS = 5;
/** Share of its time that the event loop is busy with other things. */
const BUSY = 0.3;
const PAUSE_FACTOR = 4;
const PAUSE_MS_MAX = 2_000;

export function createYielding(clock: Clock) {
  let endedAt = clock.monotonic();
  return {
    /** Between two steps. */
    async pause(signal: AbortSignal): Promise<void> {
      const stepMs = clock.monotonic() - endedAt;
      const before = performance.eventLoopUtilization();
      await clock.sleep(LOOK_MS, signal);
      const { utilization } = performance.eventLoopUtilization(before);
      if (utilization > BUSY) await clock.sleep(Math.min(stepMs * PAUSE_FACTOR, PAUSE_MS_MAX), signal);
      endedAt = clock.monotonic();
    },
  };
}
