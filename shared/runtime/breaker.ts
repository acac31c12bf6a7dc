// A circuit breaker for a dependency that can become unavailable. It opens after a few failures in a row, or
// when nothing has succeeded for some time. While it is open it refuses work at once, and work that was
// running when it opened is abandoned. A probe of its own finds out when the dependency is back, so no caller
// has to pay for that.
//
// Late work alone does not open it: under too much load all work is late, and a busy dependency is not
// unavailable.

import type { Clock } from "./clock.ts";
import type { Logger } from "./observability/log.ts";

export type BreakerState = "closed" | "half_open" | "open";

/** Thrown in place of a result while the breaker is not closed. */
export class BreakerOpen extends Error {
  /** The work had begun when the breaker opened; it may still take effect. */
  readonly begun: boolean;

  constructor(begun: boolean) {
    super("the circuit breaker is open");
    this.name = "BreakerOpen";
    this.begun = begun;
  }
}

export interface BreakerOptions {
  /** The name of the dependency in log lines. */
  readonly name: string;
  /** How many failures in a row open it. */
  readonly failures: number;
  /** True for an error of an unavailable dependency. Any other error is no evidence in either direction. */
  readonly isFailure: (error: unknown) => boolean;
  /**
   * It opens when work runs and none succeeds for so many milliseconds. Time in which this process stood
   * still does not count.
   */
  readonly stallMs: number;
  /** Resolves to whether the dependency is back. */
  readonly probe: () => Promise<boolean>;
  readonly probeEveryMs: number;
  readonly onChange?: (state: BreakerState) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

const STALL_CHECK_MS = 50;

/** Turns an error that is thrown before the first await into a rejection. */
const started = async <T>(work: () => Promise<T>): Promise<T> => work();

export class Breaker {
  readonly #options: BreakerOptions;
  readonly #stopping = new AbortController();
  /** Functions that abandon the running work, and functions that wake callers of {@link closed}. */
  readonly #running = new Set<() => void>();
  readonly #waiting = new Set<() => void>();
  #state: BreakerState = "closed";
  #failures = 0;
  #openedAt = 0;
  /** When work last succeeded, or began while none was running. */
  #progressAt = 0;
  #stallCheck: NodeJS.Timeout | undefined;
  #probing: Promise<void> = Promise.resolve();

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** Milliseconds since it opened; 0 while it is closed. */
  get openMs(): number {
    return this.#state === "closed" ? 0 : this.#options.clock.monotonic() - this.#openedAt;
  }

  /** Throws {@link BreakerOpen} unless it is closed, or as soon as it opens while `work` is running. */
  run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#state !== "closed") return Promise.reject(new BreakerOpen(false));
    return new Promise((resolve, reject) => {
      const abandon = () => reject(new BreakerOpen(true));
      if (this.#running.size === 0) this.#watchForStall();
      this.#running.add(abandon);
      // A late result of abandoned work is ignored: it says nothing about the time since the breaker opened.
      started(work).then(
        (value) => {
          if (this.#running.delete(abandon)) this.#succeeded();
          resolve(value);
        },
        (error: unknown) => {
          if (this.#running.delete(abandon) && this.#options.isFailure(error)) this.#failed();
          reject(error);
        },
      );
    });
  }

  /** Resolves when it is closed, or when `signal` is aborted. */
  closed(signal: AbortSignal): Promise<void> {
    if (this.#state === "closed" || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        this.#waiting.delete(end);
        signal.removeEventListener("abort", end);
        resolve();
      };
      this.#waiting.add(end);
      signal.addEventListener("abort", end, { once: true });
    });
  }

  /** Ends the probing. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#stallCheck);
    await this.#probing;
  }

  #succeeded(): void {
    this.#failures = 0;
    this.#progressAt = this.#options.clock.monotonic();
  }

  #failed(): void {
    this.#failures += 1;
    if (this.#failures >= this.#options.failures) this.#open();
  }

  #watchForStall(): void {
    const { clock, stallMs } = this.#options;
    this.#progressAt = clock.monotonic();
    if (this.#stallCheck !== undefined) return;
    let checkedAt = this.#progressAt;
    this.#stallCheck = setInterval(() => {
      const now = clock.monotonic();
      // While a process is paused, or too busy for this check, no work has the chance to succeed.
      this.#progressAt += Math.max(0, now - checkedAt - 2 * STALL_CHECK_MS);
      checkedAt = now;
      if (this.#running.size === 0) {
        clearInterval(this.#stallCheck);
        this.#stallCheck = undefined;
      } else if (now - this.#progressAt > stallMs) this.#open();
    }, STALL_CHECK_MS).unref();
  }

  #open(): void {
    const { name, clock, log } = this.#options;
    this.#openedAt = clock.monotonic();
    this.#become("open");
    log.warn({ breaker: name, state: this.#state }, "circuit breaker opened");
    for (const abandon of this.#running) abandon();
    this.#running.clear();
    this.#probing = this.#probe();
  }

  async #probe(): Promise<void> {
    const { name, probe, probeEveryMs, clock, log } = this.#options;
    const { signal } = this.#stopping;
    for (;;) {
      await clock.sleep(probeEveryMs, signal);
      if (signal.aborted) return;
      this.#become("half_open");
      const isBack = await started(probe).catch((error: unknown) => {
        log.debug({ breaker: name, error }, "probe failed");
        return false;
      });
      if (isBack) return this.#close();
      this.#become("open");
    }
  }

  #close(): void {
    const { name, log } = this.#options;
    const awayMs = Math.round(this.openMs);
    this.#failures = 0;
    this.#become("closed");
    log.warn({ breaker: name, state: this.#state, away_ms: awayMs }, "circuit breaker closed");
    for (const wake of this.#waiting) wake();
  }

  #become(state: BreakerState): void {
    this.#state = state;
    this.#options.onChange?.(state);
  }
}
