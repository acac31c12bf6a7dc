/**
 * The end of a store that does not answer while its process stops. Each service ends its work and gives its leases back, one after the
 * other, and each of these calls would wait until its deadline. Together they take longer than a stop may.
 */
import { LIMITS } from "../protocol/limits.ts";
import type { ServiceContext, Stop } from "../runtime/process/service.ts";
import type { Store } from "../store/store.ts";

const ASK_EVERY_MS = 1_000;

export interface StoreEnd {
  /** Closes the store after its calls in progress, which have `drainMs`. */
  readonly close: Stop;
  /**
   * The stop of the process. The store is asked during it, and closed at the first missing answer: calls in progress end then, and later
   * ones are refused. So queued commands stay unacknowledged, and leases end by themselves. The store has as much time for an answer as a
   * command, so no command from before the stop is cut short.
   */
  readonly during: (stop: Stop) => Stop;
}

export function endOfStore(
  store: Store,
  { clock, log }: Pick<ServiceContext, "clock" | "log">,
  drainMs: number,
): StoreEnd {
  const ending = new AbortController();
  const { signal } = ending;
  let isAsked = false;
  const ask = async (): Promise<void> => {
    while (!signal.aborted) {
      const { ok, detail } = await store.health({ timeoutMs: LIMITS.command_deadline_ms });
      if (signal.aborted) return;
      if (!ok) {
        log.warn({ detail }, "the store does not answer: it is closed before the services have stopped");
        return store.close({ drainMs: 0 });
      }
      await clock.sleep(ASK_EVERY_MS, signal);
    }
  };
  return {
    close: () => {
      ending.abort();
      return store.close({ drainMs });
    },
    during: (stop) => () => {
      if (!isAsked) void ask().catch((error: unknown) => log.error({ error }, "closing the store failed"));
      isAsked = true;
      return stop();
    },
  };
}
