/**
 * Turns changes of a key into wake-ups for a loop that polls. The loop finds its work by polling, so a missed
 * change costs one of its poll intervals.
 */
import type { Clock, Wake } from "../runtime/clock.ts";
import { sameBytes } from "./same-bytes.ts";
import type { Bytes, Store } from "./store.ts";

export interface KeyWakeOptions {
  readonly store: Pick<Store, "read" | "changed">;
  readonly key: Bytes;
  readonly wake: Wake;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The pause after each wake-up: a busy loop needs no more wake-ups. */
  readonly restMs: () => number;
}

const READ_DEADLINE_MS = 2_000;
/** The time after which a watch that has seen no change is renewed. */
const WATCH_MS = 15_000;
const RETRY_MS = 500;

/** Resolves when `signal` aborts; never rejects. */
export async function wakeOnChange(options: KeyWakeOptions): Promise<void> {
  const { store, key, wake, clock, signal, restMs } = options;
  let last: Bytes | undefined | null = null;
  while (!signal.aborted) {
    try {
      const read = { label: "watched_key", deadlineMs: READ_DEADLINE_MS, signal };
      const seen = await store.read(read, (reader) => reader.get(key));
      if (last === null || !sameBytes(seen, last)) {
        last = seen;
        wake.notify();
      }
      await store.changed(key, seen, { signal, pollMs: WATCH_MS });
      await clock.sleep(restMs(), signal);
    } catch {
      // The store is unavailable, which the polling loop reports. This loop tries again.
      await clock.sleep(RETRY_MS, signal);
    }
  }
}
