// The only consume loop in the fleet: take, handle, again. Polling is the truth and a hint only cuts the sleep short.
// Whatever fails, the loop goes on and backs off, so an outage neither kills a worker nor burns a core. On stop,
// work that was taken but not begun is given back at once, and the next instance need not wait for a lease to lapse.

import type { Clock, Wake } from "./clock.ts";
import type { Logger } from "./observability/log.ts";
import { backoffMs } from "./retry.ts";

export interface WorkerOptions<T> {
  name: string;
  /** The next items, [] when there is nothing to do now. */
  take: (signal: AbortSignal) => Promise<readonly T[]>;
  /** Finishes one item, with its own ack or give-back. An error here is a defect or an outage, not an answer. */
  handle: (item: T, signal: AbortSignal) => Promise<void>;
  /** Gives back an item that was taken and will not be handled, because the worker stops. */
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

/** Resolves when aborted and the item in work is finished; never rejects. */
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

/** Tries every item; throws the first error only after all had their turn, so one bad item delays no good one. */
async function handleBatch<T>(batch: readonly T[], options: WorkerOptions<T>): Promise<void> {
  const { name, handle, release, concurrency = 1, signal, log } = options;
  const errors: unknown[] = [];
  const items = batch.values();
  const lane = async () => {
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
  await Promise.all(Array.from({ length: Math.min(concurrency, batch.length) }, lane));
  if (errors.length > 0) throw errors[0];
}
