/**
 * A sweep: finds what is due in an index by time, whatever woke nobody. Every instance sweeps; the transaction of a step decides which of
 * them made it. It sleeps until the next one is due.
 */
import type { Clock } from "./clock.ts";
import type { Logger } from "./observability/log.ts";
import type { Stop } from "./process/service.ts";
import { runWorker } from "./worker.ts";

/** The longest sleep: what another instance or a writer has made due meanwhile is found after so long. */
const POLL_MS = 1_000;
/** Spreads instances that wake for the same moment. */
const SPREAD_MS = 50;
const PAGE = 256;
const CONCURRENCY = 32;

export interface SweepOptions<T> {
  readonly name: string;
  /** At most `limit` of those that are due by `untilMs`, the longest overdue first. */
  readonly due: (untilMs: number, limit: number) => Promise<readonly T[]>;
  /** When it is due; null: never. */
  readonly dueAt: (item: T) => string | null;
  readonly handle: (item: T) => Promise<void>;
  /** How soon somebody whom `due` leaves out may be due after all; no sleep is longer. */
  readonly againMs?: () => number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Starts at once. Stop finishes the steps under way. */
export function startSweep<T>({ name, due, dueAt, handle, againMs, clock, log }: SweepOptions<T>): Stop {
  const stopping = new AbortController();
  let sleepMs = POLL_MS;
  const dueMs = (item: T): number => {
    const at = dueAt(item);
    return at === null ? Number.POSITIVE_INFINITY : Date.parse(at);
  };
  const sweeping = runWorker({
    name,
    take: async () => {
      const nowMs = clock.now();
      const found = await due(nowMs + POLL_MS, PAGE);
      const soon = found.find((item) => dueMs(item) > nowMs);
      sleepMs = (soon === undefined ? POLL_MS : dueMs(soon) - nowMs) + Math.random() * SPREAD_MS;
      return found.filter((item) => dueMs(item) <= nowMs);
    },
    handle,
    concurrency: CONCURRENCY,
    idle: {
      get ms() {
        return Math.min(sleepMs, againMs?.() ?? sleepMs);
      },
    },
    signal: stopping.signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await sweeping;
  };
}
