/**
 * The end of a store that does not answer while its process stops. Each service ends its work and gives its leases back, one after the
 * other, and each of these calls would wait until its deadline. Together they take longer than a stop may.
 */
import { LIMITS } from "../protocol/limits.ts";
import type { ServiceContext, Stop } from "../runtime/process/service.ts";
import type { Store } from "../store/store.ts";

const ASK_EVERY_MS = 1_000;
/** A process that was paused misses an answer that is there, but not that of the next question. */
const CONFIRM_MS = 1_000;

export interface StoreEnd {
  /** Closes the store after its calls in progress, which have `drainMs`. */
  readonly close: Stop;
  /**
   * The stop of the process. The store is asked during it, and closed when it is silent: calls in progress end then, and later ones are
   * refused. So queued commands stay unacknowledged, and leases end by themselves. The store has at least as much time for its answer as a
   * command, so no command from before the stop is cut short.
   */
  readonly during: (stop: Stop) => Stop;
}

export function endOfStore(store: Store, context: SilenceContext, drainMs: number): StoreEnd {
  const ending = new AbortController();
  let isAsked = false;
  const ask = async (): Promise<void> => {
    await closeWhenSilent(store, context, ending.signal).catch((error: unknown) =>
      context.log.error({ error }, "closing the store failed"),
    );
  };
  return {
    close: () => {
      ending.abort();
      return store.close({ drainMs });
    },
    during: (stop) => () => {
      if (!isAsked) void ask();
      isAsked = true;
      return stop();
    },
  };
}

type SilenceContext = Pick<ServiceContext, "clock" | "log">;

async function closeWhenSilent(store: Store, context: SilenceContext, signal: AbortSignal): Promise<void> {
  const { clock, log } = context;
  /** A store that refuses, such as one on a full disk, is not silent. */
  const isSilent = async (timeoutMs: number): Promise<boolean> => {
    const askedAt = clock.monotonic();
    const { ok } = await store.health({ timeoutMs });
    return !ok && clock.monotonic() - askedAt >= timeoutMs;
  };
  while (!signal.aborted) {
    if ((await isSilent(LIMITS.command_deadline_ms)) && !signal.aborted && (await isSilent(CONFIRM_MS))) {
      if (signal.aborted) return;
      log.warn("the store does not answer: it is closed before the services have stopped");
      return store.close({ drainMs: 0 });
    }
    await clock.sleep(ASK_EVERY_MS, signal);
  }
}
