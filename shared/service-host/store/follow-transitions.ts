/** Runs a worker that looks for work after every transition of any task. A missed wake-up costs one interval of its poll, never a transition. */

import { wakeOnTransitions } from "../../records/outbox/outbox.ts";
import { createWake } from "../../runtime/clock.ts";
import { runWorker, type WorkerOptions } from "../../runtime/worker.ts";
import type { Store } from "../../store/store.ts";

export interface FollowerOptions<T> extends Omit<WorkerOptions<T>, "idle"> {
  readonly store: Store;
  /** The longest time between two looks, in milliseconds. */
  readonly pollMs: number;
  /** The pause after a wake-up, in milliseconds: later transitions join the next look. */
  readonly restMs: () => number;
}

/** Resolves when aborted and the current items are finished; never rejects. */
export async function followTransitions<T>(options: FollowerOptions<T>): Promise<void> {
  const { store, pollMs, restMs, ...worker } = options;
  const wake = createWake();
  await Promise.all([
    runWorker({ ...worker, idle: { ms: pollMs, wake } }),
    wakeOnTransitions({ store, wake, restMs, clock: worker.clock, signal: worker.signal }),
  ]);
}
