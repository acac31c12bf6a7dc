/**
 * Runs of keys. A key has one run at a time; a key that is woken during its run is run again after it. A key
 * whose run failed backs off, for longer with every failure. The number of runs at a time is limited.
 */
import pLimit from "p-limit";
import type { Clock } from "./clock.ts";
import type { Logger } from "./observability/log.ts";
import { backoffMs } from "./retry.ts";

const RUNS_MAX = 128;
const BACKOFF = { baseMs: 500, maxMs: 30_000, random: () => 0.5 + Math.random() / 2 };
/** Failed keys that are remembered. Forgetting one ends its backoff. */
const FAILED_MAX = 10_000;

export interface RunTable<K> {
  readonly name: string;
  /** The fields that identify a key, as they are logged. */
  readonly fieldsOf: (key: K) => Readonly<Record<string, string>>;
  /** Makes all steps that are due, none if none is. Throws when a later run may succeed. */
  readonly run: (key: K) => Promise<void>;
}

export interface RunContext {
  readonly clock: Clock;
  readonly log: Logger;
}

interface Flight {
  /** The key was woken since its run began. */
  isStale: boolean;
  ended: Promise<void>;
}

interface Failure<K> {
  readonly key: K;
  readonly count: number;
  readonly untilMs: number;
  isRetried: boolean;
}

/** After `signal` no run begins, and every wake resolves. */
export class KeyedRuns<K> {
  readonly #table: RunTable<K>;
  readonly #context: RunContext;
  readonly #signal: AbortSignal;
  readonly #limit = pLimit(RUNS_MAX);
  readonly #flights = new Map<string, Flight>();
  readonly #failures = new Map<string, Failure<K>>();

  constructor(table: RunTable<K>, context: RunContext, signal: AbortSignal) {
    this.#table = table;
    this.#context = context;
    this.#signal = signal;
  }

  /** Resolves when a run that began after the call has ended; never rejects. */
  wake(key: K): Promise<void> {
    const id = this.#idOf(key);
    let flight = this.#flights.get(id);
    if (flight === undefined) {
      flight = { isStale: true, ended: Promise.resolve() };
      this.#flights.set(id, flight);
      flight.ended = this.#runWhileWoken(id, key, flight);
    }
    flight.isStale = true;
    return flight.ended;
  }

  /** Whether the key has a run or backs off. */
  isBusy(key: K): boolean {
    const id = this.#idOf(key);
    return this.#flights.has(id) || (this.#failures.get(id)?.untilMs ?? 0) > this.#context.clock.monotonic();
  }

  /** The keys that have backed off since the last call. */
  backedOff(): K[] {
    const nowMs = this.#context.clock.monotonic();
    const over = [...this.#failures.values()].filter((one) => !one.isRetried && one.untilMs <= nowMs);
    for (const one of over) one.isRetried = true;
    return over.map(({ key }) => key);
  }

  /** Milliseconds until the next key has backed off; Infinity if none does. */
  get backoffEndsInMs(): number {
    let endMs = Number.POSITIVE_INFINITY;
    for (const { isRetried, untilMs } of this.#failures.values())
      if (!isRetried) endMs = Math.min(endMs, untilMs);
    return endMs - this.#context.clock.monotonic();
  }

  /** Waits for the runs in progress. */
  async ended(): Promise<void> {
    await Promise.all([...this.#flights.values()].map(({ ended }) => ended));
  }

  async #runWhileWoken(id: string, key: K, flight: Flight): Promise<void> {
    while (flight.isStale) {
      await this.#limit(async () => {
        flight.isStale = false;
        if (!this.#signal.aborted) await this.#run(id, key);
      });
    }
    this.#flights.delete(id);
  }

  async #run(id: string, key: K): Promise<void> {
    const { name, fieldsOf, run } = this.#table;
    const { clock, log } = this.#context;
    try {
      await run(key);
      this.#failures.delete(id);
    } catch (error) {
      const count = (this.#failures.get(id)?.count ?? 0) + 1;
      if (this.#failures.size >= FAILED_MAX) this.#failures.clear();
      const untilMs = clock.monotonic() + backoffMs(count, BACKOFF);
      this.#failures.set(id, { key, count, untilMs, isRetried: false });
      log.warn({ controller: name, ...fieldsOf(key), failures: count, error }, "controller run failed");
    }
  }

  #idOf(key: K): string {
    return Object.values(this.#table.fieldsOf(key)).join("/");
  }
}
