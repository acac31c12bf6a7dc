/**
 * Simulated processes: contexts within the one real process. A timer belongs to the process in whose context it was set, and it never fires
 * after the kill of that process, so that nothing of the process continues.
 */
import { AsyncLocalStorage } from "node:async_hooks";

const contexts = new AsyncLocalStorage<SimulatedProcess | undefined>();

export class SimulatedProcess {
  readonly name: string;
  #isAlive = true;
  readonly #atKill: (() => void)[] = [];

  constructor(name: string) {
    this.name = name;
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  run<T>(work: () => T): T {
    return contexts.run(this, work);
  }

  /** `free` releases what the world outside holds for the process. */
  onKill(free: () => void): void {
    this.#atKill.push(free);
  }

  /** The process ends between two of its steps. */
  kill(): void {
    if (!this.#isAlive) return;
    this.#isAlive = false;
    for (const free of this.#atKill) outside(free);
  }

  /** The result of work outside of the process, which never arrives after the kill. */
  arrival<T>(result: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      result.then(
        (value) => this.#isAlive && resolve(value),
        (error: unknown) => this.#isAlive && reject(error),
      );
    });
  }
}

/** The process of the running code. undefined: it is no part of a process, such as the bus and the disk. */
export const currentProcess = (): SimulatedProcess | undefined => contexts.getStore();

/** Runs the work of a server that outlives its callers: its timers belong to no process. */
export function outside<T>(work: () => T): T {
  return contexts.run(undefined, work);
}
