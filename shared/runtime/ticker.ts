// Runs a function periodically. The pause is counted from the end of a run, so two runs never overlap and a
// slow run never builds a queue behind itself. An error is logged, and the next run follows as usual.

import type { Clock } from "./clock.ts";
import type { Logger } from "./observability/log.ts";
import type { Stop } from "./process/service.ts";

export interface TickerOptions {
  name: string;
  /** The pause. A function is asked after each run. */
  everyMs: number | (() => number);
  /**
   * Spreads the pause by this fraction either way (0.1 is ±10 %), so that instances do not move in step.
   * Default 0.
   */
  jitter?: number;
  run: (signal: AbortSignal) => Promise<void>;
  signal: AbortSignal;
  clock: Clock;
  log: Logger;
}

/** The first run is at once. Resolves when aborted and the run in progress is over; never rejects. */
export async function runTicker(options: TickerOptions): Promise<void> {
  const { name, everyMs, jitter = 0, run, signal, clock, log } = options;
  while (!signal.aborted) {
    try {
      await run(signal);
    } catch (error) {
      if (signal.aborted) log.debug({ ticker: name, error }, "ticker interrupted by stop");
      else log.warn({ ticker: name, error }, "ticker run failed");
    }
    const pauseMs = typeof everyMs === "number" ? everyMs : everyMs();
    await clock.sleep(pauseMs * (1 + jitter * (2 * Math.random() - 1)), signal);
  }
}

/** Starts a ticker in the background; stopping it waits for the run in progress. */
export function startTicker(options: Omit<TickerOptions, "signal">): Stop {
  const stopping = new AbortController();
  const ticking = runTicker({ ...options, signal: stopping.signal });
  return async () => {
    stopping.abort();
    await ticking;
  };
}
