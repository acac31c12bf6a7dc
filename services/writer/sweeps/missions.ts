/**
 * Ends the locks of missions whose time is over. One instance at a time does this, under a lease, so that instances
 * do not repeat each other's work; the sweep itself is safe without it.
 */
import { uuidv7 } from "uuidv7";
import { createLeaderLease } from "../../../shared/records/leader/leader-lease.ts";
import { type MissionSweep, stepMissionSweep } from "../../../shared/records/mission/mission-sweep.ts";
import { createBackgroundThrottle } from "../../../shared/runtime/background-throttle.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { WriterConfig } from "../config.ts";
import type { WriterContext } from "../context.ts";

/** The longest time for which an expired lock keeps others waiting, if no command meets it. */
const EVERY_MS = 1_000;

interface MissionSweepContext extends ServiceContext, Pick<WriterContext, "store" | "format" | "instance"> {
  readonly config: Pick<WriterConfig, "policies">;
}

export function startMissionSweep(context: MissionSweepContext): Stop {
  const { store, format, instance, clock, log, metrics, config } = context;
  const { policies } = config;
  const now = () => clock.now();
  const { incarnation } = format;
  const sweep: MissionSweep = { store, incarnation, service: "writer", policies, now, newId: uuidv7 };
  const leader = createLeaderLease(store, "missions", instance, now);
  const throttle = createBackgroundThrottle(clock);
  const stop = startTicker({
    name: "mission sweep",
    everyMs: EVERY_MS,
    jitter: 0.1,
    clock,
    log,
    run: async (signal) => {
      for (let more = true; more && !signal.aborted; ) {
        if ((await leader.hold()) === null) return;
        const { changes, skipped, ...step } = await throttle.step(() => stepMissionSweep(sweep), signal);
        metrics.missionLocksSweptTotal.inc(changes);
        if (changes > 0) log.info({ changes }, "locks of missions ended");
        for (const one of skipped) log.warn(one, "the locks of a mission cannot be read");
        more = step.more;
      }
    },
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}
