/**
 * Finalizes superseded drafts. One instance at a time does this, under a lease, so that instances do not
 * repeat each other's work; the sweep itself is safe without it.
 */
import { type DraftSweep, stepDraftSweep } from "../../../shared/records/drafts/superseded-drafts.ts";
import { createLeaderLease } from "../../../shared/records/leader/leader-lease.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { WriterConfig } from "../config.ts";
import type { WriterContext } from "../context.ts";

const EVERY_MS_MAX = 30_000;

export interface DraftFinalizerContext
  extends ServiceContext,
    Pick<WriterContext, "store" | "format" | "instance"> {
  readonly config: Pick<WriterConfig, "finalizeDraftsAfter">;
}

export function startDraftFinalizer(context: DraftFinalizerContext): Stop {
  const { store, format, instance, clock, log, metrics, config } = context;
  const { finalizeDraftsAfter: afterMs } = config;
  if (afterMs === null) return async () => {};
  const now = () => clock.now();
  const sweep: DraftSweep = { store, incarnation: format.incarnation, service: "writer", now, afterMs };
  const leader = createLeaderLease(store, "drafts", instance, now);
  const throttle = createBackgroundThrottle(clock);
  const stop = startTicker({
    name: "draft sweep",
    everyMs: Math.min(EVERY_MS_MAX, afterMs / 4),
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      for (let more = true; more && !signal.aborted; ) {
        if ((await leader.hold()) === null) return;
        const { finalized, skipped, ...step } = await throttle.step(() => stepDraftSweep(sweep), signal);
        metrics.draftsFinalizedTotal.inc(finalized);
        if (finalized > 0) log.info({ finalized }, "superseded drafts finalized");
        for (const one of skipped) log.warn(one, "a superseded draft cannot be finalized");
        more = step.more;
      }
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}
