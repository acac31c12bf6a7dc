/**
 * Removes checkpoints that retention no longer keeps: a pass over all tasks at the start, and then once in the
 * configured time. One instance at a time does this, under a lease that each of its transactions checks, in
 * small steps that rest while the thread is busy. The position is in the store, so another instance continues.
 */
import { type Lease, requireLease } from "../../../shared/records/leader/lease.ts";
import {
  isRetentionDue,
  type RetentionStep,
  type RetentionSweep,
  readRetentionState,
  stepRetention,
} from "../../../shared/records/retention/sweep.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { WriterConfig } from "../config.ts";
import type { WriterContext } from "../context.ts";

/** The pause between two looks whether a pass is due. */
const LOOK_EVERY_MS_MAX = 60_000;
const READ_DEADLINE_MS = 2_000;

export interface RetentionContext extends ServiceContext, Pick<WriterContext, "store" | "format" | "leases"> {
  readonly config: Pick<WriterConfig, "retentionEvery" | "policies">;
}

export function startRetention(context: RetentionContext): Stop {
  const { store, format, leases, clock, log, config } = context;
  const { retentionEvery: everyMs, policies } = config;
  if (everyMs === null) return async () => {};
  const now = () => clock.now();
  const startedMs = now();
  const leader = leases.of("retention");
  const throttle = createBackgroundThrottle(clock);
  const sweepUnder = (lease: Lease): RetentionSweep => ({
    ...{ store, incarnation: format.incarnation, service: "writer", policies, now },
    guard: (tx) => requireLease(tx, lease),
  });
  const stop = startTicker({
    name: "retention",
    everyMs: Math.min(LOOK_EVERY_MS_MAX, everyMs / 4),
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      if ((await leader.hold()) === null) return;
      const reading = { label: "retention_state", deadlineMs: READ_DEADLINE_MS };
      const state = await store.read(reading, readRetentionState);
      if (!isRetentionDue(state, Math.max(startedMs, now() - everyMs))) return;
      for (let ended = false; !ended && !signal.aborted; ) {
        const lease = await leader.hold();
        if (lease === null) return;
        const step = await throttle.step(() => stepRetention(sweepUnder(lease)), signal);
        report(context, step);
        ended = step.ended;
      }
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

function report({ log, metrics, clock }: RetentionContext, step: RetentionStep): void {
  const { removed, freed_bytes, skipped, failed, pass } = step;
  metrics.retentionRemovedTotal.inc(removed);
  metrics.retentionFreedBytesTotal.inc(freed_bytes);
  if (removed > 0 || skipped > 0) log.info({ removed, freed_bytes, skipped }, "checkpoints removed");
  for (const one of failed) log.warn(one, "a task has a damaged record, and nothing of it was removed");
  if (!step.ended) return;
  metrics.retentionBacklog.set(pass.skipped);
  metrics.retentionLastRun.set(clock.now() / 1_000);
  log.info({ ...pass }, "retention has passed over all tasks");
}
