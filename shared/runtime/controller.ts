/**
 * A controller does what is due for each key of a kind, such as a handoff. An event wakes its key at once. A
 * periodic search finds the keys whose events were lost. Any number of instances may run one key: the
 * transaction of a step decides which of them makes it.
 *
 * - Single-flight: a key has one run at a time. A key that is woken during its run is run again after it.
 * - Backoff: the search passes over a key whose run failed, for longer with every failure. An event runs it
 *   nevertheless.
 * - Bounded: `RUNS_MAX` runs at a time. The search starts only some of them, so that its backlog does not
 *   delay the keys of events.
 */
import pLimit from "p-limit";
import type { Clock } from "./clock.ts";
import type { Logger } from "./observability/log.ts";
import type { Stop } from "./process/service.ts";
import { backoffMs } from "./retry.ts";
import { runWorker } from "./worker.ts";

/** The longest pause between two searches. */
const SEARCH_MS = 1_000;
/** Spreads instances that wait for the same moment. */
const SPREAD_MS = 50;
const PAGE = 256;
const RUNS_MAX = 128;
const FOUND_RUNS_MAX = 32;
const BACKOFF = { baseMs: 500, maxMs: 30_000, random: () => 0.5 + Math.random() / 2 };
/** Failed keys that are remembered. Forgetting them costs a run too early. */
const FAILED_MAX = 10_000;

export interface Due<K> {
  readonly key: K;
  /** null: not due. */
  readonly dueAt: string | null;
}

/** What a controller does, and for which keys. A search may know more of a key (`F`) than an event (`K`). */
export interface ControllerTable<K, F extends K = K> {
  readonly name: string;
  /** The fields that identify a key, as they are logged. */
  readonly fieldsOf: (key: K) => Readonly<Record<string, string>>;
  /** Makes all steps that are due, none if none is. Throws when a later run may succeed. */
  readonly run: (key: K) => Promise<void>;
  /**
   * At most `limit` keys that are due by `untilMs`, the longest overdue first, without those to pass over.
   */
  readonly search: (
    untilMs: number,
    limit: number,
    passOver: (key: F) => boolean,
  ) => Promise<readonly Due<F>[]>;
  /** Keys that wait for something else, such as capacity; the search passes over them. */
  readonly held?: {
    has(key: F): boolean;
    /** Milliseconds until a held key may be released; Infinity if none is held. */
    readonly endsInMs: number;
  };
}

export interface Controller<K> {
  /** Runs the key now. Resolves when a run that began after the call has ended; never rejects. */
  wake(key: K): Promise<void>;
  /**
   * Waits for the runs in progress. Runs that have not begun are left to the next search, of any instance.
   */
  readonly stop: Stop;
}

interface ControllerContext {
  readonly clock: Clock;
  readonly log: Logger;
}

/** Searches at once, and then periodically. */
export function startController<K, F extends K = K>(
  table: ControllerTable<K, F>,
  context: ControllerContext,
): Controller<K> {
  const { name, search, held } = table;
  const { clock, log } = context;
  const stopping = new AbortController();
  const runs = new Runs(table, context, stopping.signal);
  const found = new Set<Promise<void>>();
  const passOver = (key: F): boolean => runs.isBusy(key) || held?.has(key) === true;
  let pauseMs = SEARCH_MS;
  const searching = runWorker<F>({
    name,
    take: async () => {
      const nowMs = clock.now();
      const all = (await search(nowMs + SEARCH_MS, PAGE, passOver)).map(({ key, dueAt }) => ({
        key,
        dueMs: dueAt === null ? Number.POSITIVE_INFINITY : Date.parse(dueAt),
      }));
      const soon = all.find(({ dueMs }) => dueMs > nowMs)?.dueMs ?? Number.POSITIVE_INFINITY;
      pauseMs = Math.min(soon - nowMs, SEARCH_MS) + Math.random() * SPREAD_MS;
      return all.filter(({ dueMs }) => dueMs <= nowMs).map(({ key }) => key);
    },
    // Not awaited, so that one slow run does not delay the next search.
    handle: async (key) => {
      // The index may be damaged, and others may have taken the capacity since the search.
      if (passOver(key)) return;
      const run = runs.wake(key).finally(() => found.delete(run));
      found.add(run);
      if (found.size >= FOUND_RUNS_MAX) await Promise.race(found);
    },
    idle: {
      get ms() {
        const releaseMs = Math.min(runs.backoffEndsInMs, held?.endsInMs ?? Number.POSITIVE_INFINITY);
        return Math.min(pauseMs, Math.max(SPREAD_MS, releaseMs));
      },
    },
    signal: stopping.signal,
    clock,
    log,
  });
  return {
    wake: (key) => runs.wake(key),
    async stop() {
      stopping.abort();
      await Promise.all([searching, runs.ended()]);
    },
  };
}

interface Flight {
  /** The key was woken since its run began. */
  isStale: boolean;
  ended: Promise<void>;
}

type Runnable<K> = Pick<ControllerTable<K>, "name" | "fieldsOf" | "run">;

/** The runs in progress, by key, and the keys that back off. */
class Runs<K> {
  readonly #table: Runnable<K>;
  readonly #context: ControllerContext;
  readonly #signal: AbortSignal;
  readonly #limit = pLimit(RUNS_MAX);
  readonly #flights = new Map<string, Flight>();
  readonly #failures = new Map<string, { readonly count: number; readonly untilMs: number }>();

  constructor(table: Runnable<K>, context: ControllerContext, signal: AbortSignal) {
    this.#table = table;
    this.#context = context;
    this.#signal = signal;
  }

  wake(key: K): Promise<void> {
    const id = this.#idOf(key);
    let flight = this.#flights.get(id);
    if (flight === undefined) {
      flight = { isStale: true, ended: Promise.resolve() };
      this.#flights.set(id, flight);
      flight.ended = this.#fly(id, key, flight);
    }
    flight.isStale = true;
    return flight.ended;
  }

  /** Whether the key has a run or backs off. */
  isBusy(key: K): boolean {
    const id = this.#idOf(key);
    return this.#flights.has(id) || (this.#failures.get(id)?.untilMs ?? 0) > this.#context.clock.monotonic();
  }

  /** Milliseconds until the first key has backed off; Infinity if none does. */
  get backoffEndsInMs(): number {
    const nowMs = this.#context.clock.monotonic();
    let endMs = Number.POSITIVE_INFINITY;
    for (const { untilMs } of this.#failures.values()) if (untilMs > nowMs) endMs = Math.min(endMs, untilMs);
    return endMs - nowMs;
  }

  async ended(): Promise<void> {
    await Promise.all([...this.#flights.values()].map(({ ended }) => ended));
  }

  async #fly(id: string, key: K, flight: Flight): Promise<void> {
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
      this.#failures.set(id, { count, untilMs: clock.monotonic() + backoffMs(count, BACKOFF) });
      log.warn({ controller: name, ...fieldsOf(key), failures: count, error }, "controller run failed");
    }
  }

  #idOf(key: K): string {
    return Object.values(this.#table.fieldsOf(key)).join("/");
  }
}
