// A circuit breaker around a part that can go away. After a few failures in a row, or when nothing has come to its end for some
// time, it opens: work is refused at once instead of waiting for a part that is not there, and whoever waits already is let go.
// While it is open, a probe of its own asks whether the part is back, so that no caller has to pay for finding out.
//
// Work that is merely late says nothing: under too much of it everything is late, and a part that is busy is not away.

import {
  type CircuitBreakerPolicy,
  CircuitState,
  ConsecutiveBreaker,
  circuitBreaker,
  handleWhen,
} from "cockatiel";
import type { Clock } from "./clock.ts";
import type { Logger } from "./observability/log.ts";

export type BreakerState = "closed" | "half_open" | "open";

/** Thrown in place of an answer while the breaker is not closed. */
export class BreakerOpen extends Error {
  /** The work had begun when the breaker opened; it may still come to its end. */
  readonly begun: boolean;

  constructor(begun: boolean) {
    super("the part is away");
    this.name = "BreakerOpen";
    this.begun = begun;
  }
}

export interface BreakerOptions {
  /** Names the part in log lines. */
  readonly name: string;
  /** Failures in a row that open it. */
  readonly failures: number;
  /** Whether an error says that the part is away; every other error says that it works. */
  readonly isFailure: (error: unknown) => boolean;
  /** Milliseconds for which nothing succeeds, although work is under way, until the part counts as away. Own lag is taken off. */
  readonly stallMs: number;
  /** Resolves to whether the part is back. */
  readonly probe: () => Promise<boolean>;
  readonly probeEveryMs: number;
  readonly onChange?: (state: BreakerState) => void;
  readonly clock: Clock;
  readonly log: Logger;
}

const STATES: Readonly<Record<CircuitState, BreakerState>> = {
  [CircuitState.Closed]: "closed",
  [CircuitState.HalfOpen]: "half_open",
  [CircuitState.Open]: "open",
  [CircuitState.Isolated]: "open",
};

/** Nothing came back: from a probe, or from any work for too long. */
class NoAnswer extends Error {}

const STALL_CHECK_MS = 50;

export class Breaker {
  readonly #options: BreakerOptions;
  readonly #policy: CircuitBreakerPolicy;
  readonly #stopping = new AbortController();
  /** How to let go of those who wait for work, and how to wake those who wait for the breaker to close. */
  readonly #underWay = new Set<() => void>();
  readonly #waiting = new Set<() => void>();
  #openedAt: number | undefined;
  /** When something succeeded last, or work began after there was none. */
  #progressAt = 0;
  #checking: NodeJS.Timeout | undefined;
  #probing: Promise<void> = Promise.resolve();

  constructor(options: BreakerOptions) {
    this.#options = options;
    this.#policy = circuitBreaker(
      handleWhen((error) => error instanceof NoAnswer || options.isFailure(error)),
      // The probing below keeps the pace; the library would measure it on the wall clock, which may jump.
      { halfOpenAfter: Number.NEGATIVE_INFINITY, breaker: new ConsecutiveBreaker(options.failures) },
    );
    this.#policy.onStateChange((state) => this.#changed(STATES[state]));
  }

  get state(): BreakerState {
    return STATES[this.#policy.state];
  }

  /** Milliseconds since it opened; 0 while it is closed. */
  get awayMs(): number {
    return this.#openedAt === undefined ? 0 : this.#options.clock.monotonic() - this.#openedAt;
  }

  /** Throws {@link BreakerOpen} unless it is closed, and as soon as it opens while `work` is under way. */
  run<T>(work: () => Promise<T>): Promise<T> {
    if (this.state !== "closed") return Promise.reject(new BreakerOpen(false));
    return new Promise((resolve, reject) => {
      const leave = () => reject(new BreakerOpen(true));
      if (this.#underWay.size === 0) this.#begin();
      this.#underWay.add(leave);
      this.#policy
        .execute(work)
        .then((value) => {
          this.#progressAt = this.#options.clock.monotonic();
          resolve(value);
        }, reject)
        .finally(() => this.#underWay.delete(leave));
    });
  }

  /** Resolves when it is closed, or when `signal` is aborted. */
  closed(signal: AbortSignal): Promise<void> {
    if (this.state === "closed" || signal.aborted) return Promise.resolve();
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
    clearInterval(this.#checking);
    await this.#probing;
  }

  #begin(): void {
    const { clock, stallMs } = this.#options;
    this.#progressAt = clock.monotonic();
    if (this.#checking !== undefined) return;
    let checkedAt = this.#progressAt;
    this.#checking = setInterval(() => {
      const now = clock.monotonic();
      // A process that was paused, or too busy to look, has not given anybody the chance to succeed.
      this.#progressAt += Math.max(0, now - checkedAt - 2 * STALL_CHECK_MS);
      checkedAt = now;
      if (this.#underWay.size === 0) {
        clearInterval(this.#checking);
        this.#checking = undefined;
      } else if (now - this.#progressAt > stallMs) this.#trip();
    }, STALL_CHECK_MS).unref();
  }

  #trip(): void {
    const fail = (): Promise<never> => Promise.reject(new NoAnswer());
    for (let n = 0; n < this.#options.failures && this.state === "closed"; n += 1)
      this.#policy.execute(fail).catch(() => {});
  }

  #changed(state: BreakerState): void {
    const { name, clock, log, onChange } = this.#options;
    if (state === "closed") {
      log.warn({ breaker: name, state, away_ms: Math.round(this.awayMs) }, "circuit breaker closed");
      this.#openedAt = undefined;
      for (const wake of [...this.#waiting]) wake();
    } else if (state === "open" && this.#openedAt === undefined) {
      log.warn({ breaker: name, state }, "circuit breaker opened");
      this.#openedAt = clock.monotonic();
      for (const leave of this.#underWay) leave();
      this.#probing = this.#probe();
    } else log.debug({ breaker: name, state }, "circuit breaker probes");
    onChange?.(state);
  }

  async #probe(): Promise<void> {
    const { name, probe, probeEveryMs, clock, log } = this.#options;
    const { signal } = this.#stopping;
    while (this.state !== "closed") {
      await clock.sleep(probeEveryMs, signal);
      if (signal.aborted) return;
      const ask = async (): Promise<void> => {
        if (!(await probe())) throw new NoAnswer();
      };
      await this.#policy
        .execute(ask)
        .catch((error: unknown) => log.debug({ breaker: name, error }, "probe failed"));
    }
  }
}
