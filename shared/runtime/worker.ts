// The loop of a background job that polls: take, handle, repeat. Polling finds the work, and a hint only cuts
// the sleep short. (Jobs that consume a stream stand in shared/bus/consume.) After a failure the loop backs
// off and continues, so an outage neither kills a worker nor burns a core. On stop, items that were taken but
// not begun are given back at once, and the next instance need not wait for a lease to expire.

import type { Clock, Wake } from "./clock.ts";
import type { Logger } from "./observability/log.ts";
import { backoffMs } from "./retry.ts";

export interface WorkerOptions<T> {
  name: string;
  /** Returns the next items; [] when there is nothing to do. */
  take: (signal: AbortSignal) => Promise<readonly T[]>;
  /**
   * Finishes one item, including its acknowledgement. An error here is a defect or an outage, not a result.
   */
  handle: (item: T, signal: AbortSignal) => Promise<void>;
  /** Gives back an item that will not be handled because the worker stops. */
  release?: ((item: T) => Promise<void>) | undefined;
  /** How many items of a batch are handled at a time. Default 1. */
  concurrency?: number;
  idle: { ms: number; wake?: Wake | undefined };
  /** Bounds of the pause after a failure. Default 100 ms to 10 s. */
  backoff?: { baseMs: number; maxMs: number };
  signal: AbortSignal;
  clock: Clock;
  log: Logger;
}

/** Resolves when aborted and the current items are finished; never rejects. */
export async function runWorker<T>(options: WorkerOptions<T>): Promise<void> {
  const { name, take, idle, signal, clock, log, backoff = { baseMs: 100, maxMs: 10_000 } } = options;
  for (let failures = 0; !signal.aborted; ) {
    try {
      const batch = await take(signal);
      await handleBatch(batch, options);
      failures = 0;
      if (batch.length > 0) continue;
      if (idle.wake === undefined) await clock.sleep(idle.ms, signal);
      else await clock.wait(idle.ms, idle.wake, signal);
    } catch (error) {
      if (signal.aborted) {
        log.debug({ worker: name, error }, "worker interrupted by stop");
        break;
      }
      failures += 1;
      log.warn({ worker: name, failures, error }, "worker iteration failed");
      // Half of the pause is certain: pure chance could draw several zeros in a row and spin.
      const bound = backoffMs(failures, { ...backoff, random: () => 0.5 + Math.random() / 2 });
      await clock.sleep(bound, signal);
    }
  }
}

/** Tries every item and throws the first error only at the end, so that one bad item delays no good one. */
async function handleBatch<T>(batch: readonly T[], options: WorkerOptions<T>): Promise<void> {
  const { name, handle, release, concurrency = 1, signal, log } = options;
  const errors: unknown[] = [];
  const items = batch.values();
  const handleItems = async () => {
    for (const item of items) {
      try {
        if (!signal.aborted) await handle(item, signal);
        else await release?.(item);
      } catch (error) {
        if (errors.length > 0) log.warn({ worker: name, error }, "another item of the batch failed");
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, batch.length) }, handleItems));
  if (errors.length > 0) throw errors[0];
}
