/**
 * A mutex for each task: its commands run one after another, in the order of their arrival. Each command
 * reads and writes the task's head, so of many concurrent ones only one could commit; the others would do
 * their work in vain and retry, some of them until their deadline. The mutex saves that work and is fair. It
 * is an optimisation within one process: the transactions of the store alone guarantee correctness between
 * processes. Different tasks never wait for each other.
 */
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";

/** The mutex of one task, while a command holds it. */
interface Mutex {
  /** The waiting commands, in their order. */
  readonly waiting: Set<() => void>;
  /** The number of commands that have finished. */
  finished: number;
}

export class TaskMutexes {
  readonly #mutexes = new Map<string, Mutex>();

  /**
   * Runs the work when all earlier work of this name has finished; its argument is the time that it waited.
   * After `waitMs` it throws UNAVAILABLE without having started the work. The message states whether there
   * was too much earlier work, or the store answered none of it.
   */
  async run<T>(name: string, waitMs: number, work: (waitedMs: number) => Promise<T>): Promise<T> {
    const mutex = this.#mutexes.get(name);
    let waited = 0;
    if (mutex === undefined) this.#mutexes.set(name, { waiting: new Set(), finished: 0 });
    else {
      const begin = performance.now();
      await acquired(mutex, waitMs);
      waited = performance.now() - begin;
    }
    try {
      return await work(waited);
    } finally {
      this.#release(name);
    }
  }

  /**
   * Runs the work when all earlier work of each of these names has finished. The mutexes are acquired in the order
   * of their names, so two commands on the same two tasks never wait for each other.
   */
  runAll<T>(names: readonly string[], waitMs: number, work: (waitedMs: number) => Promise<T>): Promise<T> {
    // Nearly every command concerns one task.
    if (names.length === 1) return this.run(names[0]!, waitMs, work);
    const [first, ...rest] = [...new Set(names)].sort();
    if (first === undefined) return work(0);
    return this.run(first, waitMs, (waitedMs) =>
      this.runAll(rest, waitMs - waitedMs, (further) => work(waitedMs + further)),
    );
  }

  /**
   * Passes the mutex to the next command without a gap, so that a command that arrives now cannot overtake.
   */
  #release(name: string): void {
    const mutex = this.#mutexes.get(name);
    const next = mutex?.waiting.values().next().value;
    if (mutex === undefined || next === undefined) {
      this.#mutexes.delete(name);
      return;
    }
    mutex.finished += 1;
    mutex.waiting.delete(next);
    next();
  }
}

function acquired(mutex: Mutex, waitMs: number): Promise<void> {
  const { finished } = mutex;
  return new Promise((resolve, reject) => {
    const admit = (): void => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      mutex.waiting.delete(admit);
      reject(mutex.finished === finished ? stalledStore() : tooManyCommands(mutex.waiting.size));
    }, waitMs);
    mutex.waiting.add(admit);
  });
}

function stalledStore(): FleetError {
  return new FleetError("UNAVAILABLE", "the store did not answer the earlier commands on this task in time");
}

function tooManyCommands(waiting: number): FleetError {
  return new FleetError("UNAVAILABLE", "too many commands on this task at once", {
    details: { waiting },
    retryAfterMs: LIMITS.overload_retry_ms,
  });
}
