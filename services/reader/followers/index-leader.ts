/**
 * Runs the indexer in one reader at a time, under a lease. The wake-up keys of the outbox, which every
 * transition changes, wake it. A missed wake-up costs one poll interval, never an entry.
 */
import type { LeaderLease } from "../../../shared/records/leader/leader-lease.ts";
import { requireLease } from "../../../shared/records/leader/lease.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { stepPrune } from "../../../shared/records/search/index-prune.ts";
import { readIndexStatus } from "../../../shared/records/search/index-state.ts";
import { type IndexStep, stepIndex } from "../../../shared/records/search/indexer.ts";
import { createBackgroundThrottle, PAUSE_FACTOR } from "../../../shared/runtime/background-throttle.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { followTransitions } from "../../../shared/service-host/store/follow-transitions.ts";
import type { Tx } from "../../../shared/store/store.ts";
import type { ReaderContext } from "../context.ts";

const POLL_MS = 2_000;
/** The wait after a step, longer under load: larger steps make fewer and longer postings. */
const GATHER_MS = { few: 20, many: 400 };
const MANY = 16;
/** The minimum interval between two wake-ups by one key. */
const REST_MS = 50;
const READ_DEADLINE_MS = 2_000;
/** A pass reads the whole index, so several removals share one. */
const PRUNE_EVERY_MS = 5 * 60_000;

/** Stop finishes the current step and releases the lease. */
export function startIndexer(context: ReaderContext, repository: CheckpointRepository): Stop {
  const { store, clock, log, metrics } = context;
  const stopping = new AbortController();
  const { signal } = stopping;
  const leader = context.leases.of("index");
  const pace = createIndexPace();
  const throttle = createBackgroundThrottle(context.clock, { pauseFactor: pace.pauseFactor });
  const working = followTransitions({
    name: "indexer",
    store,
    take: () => throttle.step(() => takeStep(context, leader), signal),
    handle: (step) => {
      pace.note(step);
      return finishStep(context, repository, step, signal);
    },
    pollMs: POLL_MS,
    restMs: () => REST_MS,
    signal,
    clock,
    log,
  });
  const stopMeasuring = metrics.registry.measure({
    name: "index lag",
    run: async () => {
      const options = { label: "index_lag", deadlineMs: READ_DEADLINE_MS };
      metrics.indexLag.set((await store.read(options, readIndexStatus)).behind);
    },
    log,
  });
  return async () => {
    stopping.abort();
    await Promise.all([working, stopMeasuring()]);
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

/** The least rest of an index that stays behind, in steps. */
const PAUSE_FACTOR_MIN = 0.25;

/**
 * How long the indexer rests on a busy thread. It leaves the time to the requests, so it falls behind at first. But the commits of a load that lasts must not
 * wait for its end: with each step that another one follows, the rests become shorter, down to a quarter of a step. A rebuild has time.
 */
export function createIndexPace() {
  let factor = PAUSE_FACTOR;
  return {
    pauseFactor: () => factor,
    note({ followed, more, rebuilding }: Pick<IndexStep, "followed" | "more" | "rebuilding">): void {
      const isBehind = more && !rebuilding && followed > 0;
      factor = isBehind ? Math.max(PAUSE_FACTOR_MIN, factor / 2) : PAUSE_FACTOR;
    },
  };
}

async function takeStep(context: ReaderContext, leader: LeaderLease): Promise<IndexStep[]> {
  const { store, clock } = context;
  const lease = await leader.hold();
  if (lease === null) return [];
  const guard = (tx: Tx) => requireLease(tx, lease);
  const step = await stepIndex(store, guard, clock.monotonic);
  if (step.followed > 0 || step.more) return [step];
  return (await pruneStep(context, guard))
    ? [{ followed: 0, more: true, rebuilding: false, corrupt: [] }]
    : [];
}

/** False: no removed checkpoint has words in the index, as far as is known. */
async function pruneStep(
  { store, clock, log, metrics }: ReaderContext,
  guard: (tx: Tx) => Promise<void>,
): Promise<boolean> {
  const done = await stepPrune(store, { guard, nowMs: clock.now(), everyMs: PRUNE_EVERY_MS });
  if (done === null) return false;
  metrics.indexPrunedTotal.inc(done.removed);
  if (done.hasEnded) log.info("words of removed checkpoints have left the search index");
  return true;
}

async function finishStep(
  { clock, log }: ReaderContext,
  repository: CheckpointRepository,
  step: IndexStep,
  signal: AbortSignal,
): Promise<void> {
  log.debug({ followed: step.followed, more: step.more }, "index step done");
  for (const { tenant, task, corrupt } of step.corrupt) await repository.quarantine(tenant, task, [corrupt]);
  if (!step.more) await clock.sleep(step.followed < MANY ? GATHER_MS.few : GATHER_MS.many, signal);
}
