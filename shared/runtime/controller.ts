/**
 * A controller does the due work for each key of a kind, such as a handoff. An event wakes its key at once. A
 * periodic search finds the keys whose events were lost. Any number of instances may run one key: the
 * transaction of a step decides which of them makes it.
 *
 * - Single-flight: a key has one run at a time. A key that is woken during its run is run again after it.
 * - Backoff: a key whose run failed is run again after a pause that grows with every failure. An event runs it
 *   at once.
 * - Bounded: the number of runs at a time is limited. The search starts only a part of them, so that its
 *   backlog does not delay the keys of events.
 */
import { KeyedRuns, type RunContext, type RunTable } from "./keyed-runs.ts";
import type { Stop } from "./process/service.ts";
import { runWorker } from "./worker.ts";

/** The longest pause between two searches, without the spread. */
const SEARCH_MS = 1_000;
/** Spreads instances that wait for the same moment. */
const SPREAD_MS = 50;
const PAGE = 256;
/** Limit of concurrent runs that the search started. */
const FOUND_RUNS_MAX = 32;

export interface Due<K> {
  readonly key: K;
  /** null: not due. */
  readonly dueAt: string | null;
}

/** The work of a controller, and the search for its keys. A search may know more of a key (`F`) than an event (`K`). */
export interface ControllerTable<K, F extends K = K> extends RunTable<K> {
  /** At most `limit` keys that are due by `untilMs`, the longest overdue first, without those to pass over. */
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
  /** Waits for the runs in progress. The next search of any instance finds the keys that did not run. */
  readonly stop: Stop;
}

interface Candidate<K> {
  readonly key: K;
  readonly isPassedOver: () => boolean;
}

/** Searches at once, and then periodically. */
export function startController<K, F extends K = K>(
  table: ControllerTable<K, F>,
  context: RunContext,
): Controller<K> {
  const { name, search, held } = table;
  const { clock, log } = context;
  const stopping = new AbortController();
  const runs = new KeyedRuns<K>(table, context, stopping.signal);
  const found = new Set<Promise<void>>();
  const passOver = (key: F): boolean => runs.isBusy(key) || held?.has(key) === true;
  let pauseMs = SEARCH_MS;
  const findDue = async (): Promise<F[]> => {
    const nowMs = clock.now();
    const all = (await search(nowMs + SEARCH_MS, PAGE, passOver)).map(({ key, dueAt }) => ({
      key,
      dueMs: dueAt === null ? Number.POSITIVE_INFINITY : Date.parse(dueAt),
    }));
    const soon = all.find(({ dueMs }) => dueMs > nowMs)?.dueMs ?? Number.POSITIVE_INFINITY;
    pauseMs = Math.min(soon - nowMs, SEARCH_MS) + Math.random() * SPREAD_MS;
    return all.filter(({ dueMs }) => dueMs <= nowMs).map(({ key }) => key);
  };
  const searching = runWorker<Candidate<K>>({
    name,
    take: async () => {
      // Decided again for each key: the index may be damaged, and other keys may have taken the capacity.
      const due = (await findDue()).map((key) => ({ key, isPassedOver: () => passOver(key) }));
      const retries = runs.backedOff().map((key) => ({ key, isPassedOver: () => runs.isBusy(key) }));
      return [...retries, ...due];
    },
    handle: async ({ key, isPassedOver }) => {
      if (isPassedOver()) return;
      // Not awaited, so that a slow run does not delay the next search.
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
