/**
 * Ends this real process when one simulation takes too much time of the processor. The watchdog is a thread of its own, because the main thread may
 * be in a loop without an end. It counts the time of the processor, so that a busy machine ends no simulation.
 */
import { Worker } from "node:worker_threads";

const THREAD = new URL("./watchdog-thread.ts", import.meta.url);

/** What the thread reads. */
export interface WatchedRun {
  /** One number: how often a simulation began or ended. It is odd during a simulation. */
  readonly runs: Int32Array;
  /** One number. */
  readonly limitMs: Int32Array;
}

/** The global function that the thread calls in the main thread. */
export const REPORT = "simulationReport";

const sharedNumber = (): Int32Array => new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));

let watched: WatchedRun | undefined;

function startThread(): WatchedRun {
  const shared: WatchedRun = { runs: sharedNumber(), limitMs: sharedNumber() };
  // Without the preload of the main thread.
  new Worker(THREAD, { workerData: shared, execArgv: [] }).unref();
  return shared;
}

/** Watches the simulation that begins now. Returns what ends the watch. */
export function watchRun(limitMs: number, report: () => string): () => void {
  watched ??= startThread();
  const { runs } = watched;
  Reflect.set(globalThis, REPORT, report);
  Atomics.store(watched.limitMs, 0, limitMs);
  Atomics.add(runs, 0, 1);
  return () => {
    Atomics.add(runs, 0, 1);
    Reflect.deleteProperty(globalThis, REPORT);
  };
}
