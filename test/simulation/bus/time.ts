/**
 * The time of the simulated server: the global timers, which a simulation replaces. Timers of the server do not belong to the program
 * whose call set them, so that a simulation can drop the timers of a killed program.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** Longer timers fire at once in Node. */
const LONGEST_MS = 2_000_000_000;

/** Runs a function outside the program that calls it. */
export type Runner = (work: () => void) => void;

/** What runs in the caller's program, also later and from elsewhere. */
export const runnerOfCaller = (): Runner => AsyncLocalStorage.snapshot();

/** One timer, for the earliest of several times. */
export class Alarm {
  readonly #run: Runner;
  readonly #ring: () => void;
  #timer: NodeJS.Timeout | undefined;
  #at = Number.POSITIVE_INFINITY;

  constructor(run: Runner, ring: () => void) {
    this.#run = run;
    this.#ring = ring;
  }

  /** Rings at this time of {@link performance}, or earlier where an earlier time was set. */
  by(at: number): void {
    if (at >= this.#at) return;
    this.#at = at;
    clearTimeout(this.#timer);
    const ms = Math.min(LONGEST_MS, Math.max(0, Math.ceil(at - performance.now())));
    this.#run(() => {
      this.#timer = setTimeout(() => {
        this.#at = Number.POSITIVE_INFINITY;
        this.#ring();
      }, ms);
    });
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#at = Number.POSITIVE_INFINITY;
  }
}
