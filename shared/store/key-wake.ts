/**
 * Turns changes of a key into wake-ups for a loop that polls. Polling finds the work, so a missed change
 * costs one poll interval.
 */
import type { Clock, Wake } from "../runtime/clock.ts";
import type { Bytes, Store } from "./store.ts";

export interface KeyWakeOptions {
  readonly store: Store;
  readonly key: Bytes;
  readonly wake: Wake;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly pollMs: number;
  /** The pause after each wake-up: a busy loop needs no more wake-ups. */
  readonly restMs: () => number;
}

const READ_DEADLINE_MS = 2_000;

/** Resolves when `signal` aborts; never rejects. */
export async function wakeOnChange(options: KeyWakeOptions): Promise<void> {
  const { store, key, wake, clock, signal, pollMs, restMs } = options;
  while (!signal.aborted) {
    try {
      const read = { label: "watched_key", deadlineMs: READ_DEADLINE_MS, signal };
      const seen = await store.read(read, (reader) => reader.get(key));
      wake.notify();
      await store.changed(key, seen, { signal, pollMs });
      await clock.sleep(restMs(), signal);
    } catch {
      // The store is unavailable, which the polling loop reports. This loop tries again.
      await clock.sleep(pollMs, signal);
    }
  }
}
