// A clock that moves only when told. Waiting code runs against it unchanged, because it obeys the same waiting rules
// as the real clock (clockFrom); an hour of leases and backoffs is judged at once and always the same way.

import { setImmediate as turn } from "node:timers/promises";
import { type Clock, clockFrom } from "../../shared/runtime/clock.ts";

export interface ManualClock extends Clock {
  /** Moves time on, ending the sleeps that fall due in their order; code woken on the way may sleep again. */
  advance(ms: number): Promise<void>;
  /** Shifts the wall clock alone, as an operator or a time server would; negative goes back. */
  skew(ms: number): void;
  /** Resolves as soon as at least `count` waits are under way: the way to meet code that works before it sleeps. */
  sleeping(count?: number): Promise<void>;
  /** Waits under way now. */
  readonly sleepers: number;
  /** Lengths of all waits begun so far, in milliseconds. */
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

/** A few turns of the event loop, so that promise chains started by a callback come to rest. */
async function settle(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await turn();
}
