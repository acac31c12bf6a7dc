/**
 * Prevents the end of the process in the middle of an engine transaction. Node ends a committing thread
 * anywhere in its JavaScript. Between the engine's begin and commit, the engine's cleanup would wait for a
 * lock that this very thread holds, and the process would hang instead of exiting. So the exit shuts the gate
 * first.
 *
 * The whole process has one gate, because any of its threads may open a store. Threads inherit its memory
 * from the thread that starts them, so the main thread must create it before it starts any
 * ({@link processGate}).
 */
import { getEnvironmentData, isMainThread, setEnvironmentData } from "node:worker_threads";

/** Set when shut; the other bits count the threads inside. */
const SHUT = 1 << 30;
const NAME = "fleet.lmdb.gate";
/** How long an exiting process waits for the current batches. */
const EXIT_MS = 10_000;

export class Gate {
  readonly #state: Int32Array;

  /** Each thread makes one over the same memory. */
  constructor(memory: SharedArrayBuffer) {
    this.#state = new Int32Array(memory);
  }

  /**
   * Runs `work` unless the gate is shut. Then this thread blocks for ever, because the process is about to
   * end.
   */
  pass<T>(work: () => T): T {
    if (Atomics.add(this.#state, 0, 1) >= SHUT) {
      this.#leave();
      for (;;) Atomics.wait(this.#state, 0, Atomics.load(this.#state, 0), 1_000);
    }
    try {
      return work();
    } finally {
      this.#leave();
    }
  }

  /** Prevents further work and waits for the work inside. False when that took longer than `timeoutMs`. */
  shut(timeoutMs: number): boolean {
    const end = performance.now() + timeoutMs;
    for (let state = Atomics.or(this.#state, 0, SHUT) | SHUT; state !== SHUT; ) {
      const left = end - performance.now();
      if (left <= 0) return false;
      Atomics.wait(this.#state, 0, state, left);
      state = Atomics.load(this.#state, 0);
    }
    return true;
  }

  #leave(): void {
    Atomics.sub(this.#state, 0, 1);
    Atomics.notify(this.#state, 0);
  }
}

/** Returns the gate of the process. The main thread shuts it when the process exits. */
export function processGate(): Gate {
  const inherited = getEnvironmentData(NAME);
  if (inherited instanceof SharedArrayBuffer) return new Gate(inherited);
  const memory = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  setEnvironmentData(NAME, memory);
  const gate = new Gate(memory);
  if (isMainThread) {
    process.once("exit", () => {
      // It would hang for ever otherwise; the engine survives a kill at any point.
      if (!gate.shut(EXIT_MS)) process.kill(process.pid, "SIGKILL");
    });
  }
  return gate;
}
