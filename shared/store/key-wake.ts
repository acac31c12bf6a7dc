/** Turns changes of a key into wake-ups for a loop that polls. The polling is what finds the work; a missed change costs one poll. */
import type { Clock, Wake } from "../runtime/clock.ts";
import type { Bytes, Store } from "./store.ts";

export interface WakingOptions {
  readonly store: Store;
  readonly key: Bytes;
  readonly wake: Wake;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly pollMs: number;
  /** Pause after each wake-up: a loop that is awake under load needs no closer listening. */
  readonly restMs: () => number;
}

const READ_DEADLINE_MS = 2_000;

/** Resolves when `signal` aborts; never rejects. */
export async function wakeOnChange(options: WakingOptions): Promise<void> {
  const { store, key, wake, clock, signal, pollMs, restMs } = options;
  while (!signal.aborted) {
    try {
      const read = { label: "watched_key", deadlineMs: READ_DEADLINE_MS, signal };
      const seen = await store.read(read, (reader) => reader.get(key));
      wake.notify();
      await store.changed(key, seen, { signal, pollMs });
      await clock.sleep(restMs(), signal);
    } catch {
      // The store is away; the loop that is woken says so. Listening goes on when it is back.
      await clock.sleep(pollMs, signal);
    }
  }
}
