// Time as an argument. Everything that waits takes a Clock, so that a test can move time by hand and test a
// recovery of an hour in a millisecond. Waits end early when aborted: an idle service stops at once.

/**
 * A hint that cuts a wait short. A lost hint costs latency and never correctness, because polling finds the
 * work.
 */
export interface Wake {
  /** Ends all waits on this wake. When there are none, one notification is remembered for the next wait. */
  notify(): void;
  /**
   * Calls `listener` once, at the next notification or at once if one is remembered. Returns a function that
   * cancels.
   */
  once(listener: () => void): () => void;
}

export interface Clock {
  /** Wall time in milliseconds since 1970. It may jump; use it for timestamps. */
  now(): number;
  /** Milliseconds since some fixed moment. It never goes back; use it to measure and for deadlines. */
  monotonic(): number;
  /** Resolves after `ms`, or early when aborted; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Like sleep, but a notification ends it too. */
  wait(ms: number, wake: Wake, signal?: AbortSignal): Promise<void>;
}

export function createWake(): Wake {
  const listeners = new Set<() => void>();
  let remembered = false;
  return {
    notify() {
      remembered = listeners.size === 0;
      for (const listener of [...listeners]) {
        listeners.delete(listener);
        listener();
      }
    },
    once(listener) {
      if (remembered) {
        remembered = false;
        listener();
        return () => {};
      }
      // Wrapped, so that one function waiting twice is two waits.
      const own = () => listener();
      listeners.add(own);
      return () => listeners.delete(own);
    },
  };
}

/** The source of a clock. `after` calls back once after `ms` and returns a function that cancels. */
export interface TimeSource {
  now(): number;
  monotonic(): number;
  after(ms: number, callback: () => void): () => void;
}

/** The rules of waiting, written once for the real and for the manual clock. */
export function clockFrom(source: TimeSource): Clock {
  const pause = (ms: number, wake: Wake | undefined, signal: AbortSignal | undefined) =>
    new Promise<void>((resolve) => {
      if (signal?.aborted) return resolve();
      const cancels: (() => void)[] = [];
      const end = () => {
        for (const cancel of cancels) cancel();
        signal?.removeEventListener("abort", end);
        resolve();
      };
      // The order matters: a remembered notification calls `end` during `once`, when the others must be set
      // up.
      signal?.addEventListener("abort", end, { once: true });
      cancels.push(source.after(ms, end));
      if (wake !== undefined) cancels.push(wake.once(end));
    });
  return {
    now: () => source.now(),
    monotonic: () => source.monotonic(),
    sleep: (ms, signal) => pause(ms, undefined, signal),
    wait: (ms, wake, signal) => pause(ms, wake, signal),
  };
}

/** The longest delay that setTimeout can hold; a longer one would fire at once. */
export const TIMER_MS_MAX = 2 ** 31 - 1;

export const systemClock: Clock = clockFrom({
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, callback) {
    const end = performance.now() + ms;
    let timer: NodeJS.Timeout;
    const arm = (left: number) => {
      const next = () => (left > TIMER_MS_MAX ? arm(end - performance.now()) : callback());
      timer = setTimeout(next, Math.min(Math.max(0, left), TIMER_MS_MAX));
    };
    arm(ms);
    return () => clearTimeout(timer);
  },
});

/** Resolves when the signal is aborted, at once if it is already; never rejects. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
