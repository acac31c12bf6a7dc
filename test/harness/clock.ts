// A clock that moves only when a test advances it. Code under test waits by it unchanged, because it obeys the same rules
// as the real clock (clockFrom). An hour of leases and backoffs passes at once, and always in the same order.

import { setImmediate as turn } from "node:timers/promises";
import { type Clock, clockFrom } from "../../shared/runtime/clock.ts";

export interface ManualClock extends Clock {
  /** Advances time and ends the sleeps that fall due, in their order; the code that wakes may sleep again. */
  advance(ms: number): Promise<void>;
  /** Shifts the wall clock alone, as an operator or a time server would; a negative value shifts it back. */
  skew(ms: number): void;
  /** Resolves as soon as at least `count` sleeps are open, so that a test can wait for code that works before it sleeps. */
  sleeping(count?: number): Promise<void>;
  /** The number of open sleeps. */
  readonly sleepers: number;
  /** The lengths of all sleeps begun so far, in milliseconds. */
  readonly sleeps: readonly number[];
}

interface Timer {
  due: number;
  callback: () => void;
}

export function manualClock(startMs = Date.UTC(2030, 0, 1)): ManualClock {
  const timers = new Set<Timer>();
  const sleeps: number[] = [];
  let expected: { count: number; resolve: () => void }[] = [];
  let elapsed = 0;
  let skewed = 0;

  const after = (ms: number, callback: () => void) => {
    sleeps.push(ms);
    const timer = { due: elapsed + Math.max(0, ms), callback };
    timers.add(timer);
    for (const { resolve } of expected.filter(({ count }) => count <= timers.size)) resolve();
    expected = expected.filter(({ count }) => count > timers.size);
    return () => timers.delete(timer);
  };

  const nextDue = (limit: number) =>
    [...timers].filter(({ due }) => due <= limit).sort((a, b) => a.due - b.due)[0];

  return {
    ...clockFrom({ now: () => startMs + skewed + elapsed, monotonic: () => elapsed, after }),
    async advance(ms) {
      const end = elapsed + ms;
      await settle();
      for (let timer = nextDue(end); timer !== undefined; timer = nextDue(end)) {
        timers.delete(timer);
        elapsed = Math.max(elapsed, timer.due);
        timer.callback();
        await settle();
      }
      elapsed = end;
    },
    skew(ms) {
      skewed += ms;
    },
    sleeping(count = 1) {
      if (timers.size >= count) return Promise.resolve();
      return new Promise((resolve) => expected.push({ count, resolve }));
    },
    get sleepers() {
      return timers.size;
    },
    get sleeps() {
      return sleeps;
    },
  };
}

/** Waits a few turns of the event loop, so that promise chains started by a callback settle. */
async function settle(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await turn();
}
