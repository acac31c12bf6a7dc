/**
 * Keeps the process from ending in the middle of an engine transaction. Node ends the committing thread wherever its
 * JavaScript is; if that is between the engine's begin and commit, the engine waits in its own cleanup for a lock that
 * this very thread holds, and the process hangs instead of exiting. So the exit shuts the gate first.
 */

const OPEN = 0;
const INSIDE = 1;
const SHUT = 2;

export class Gate {
  readonly memory: SharedArrayBuffer;
  readonly #state: Int32Array;

  /** Both threads make one, over the same memory. */
  constructor(memory = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)) {
    this.memory = memory;
    this.#state = new Int32Array(memory);
  }

  /** Runs `work`, unless the gate is shut: then this thread stops here, and the process is about to end. */
  pass<T>(work: () => T): T {
    if (Atomics.compareExchange(this.#state, 0, OPEN, INSIDE) !== OPEN) Atomics.wait(this.#state, 0, SHUT);
    try {
      return work();
    } finally {
      Atomics.store(this.#state, 0, OPEN);
      Atomics.notify(this.#state, 0);
    }
  }

  /** Lets no more work begin and waits for what is inside. False when that took longer than `timeoutMs`. */
  shut(timeoutMs: number): boolean {
    const end = performance.now() + timeoutMs;
    while (Atomics.compareExchange(this.#state, 0, OPEN, SHUT) === INSIDE) {
      if (Atomics.wait(this.#state, 0, INSIDE, Math.max(0, end - performance.now())) === "timed-out")
        return false;
    }
    return true;
  }
}
