/**
 * Looks for missions in progress without activity, whose coordinator may have lost its context (seed 002), and marks
 * them as candidates for a recovery. One instance at a time looks, under a lease that each of its transactions
 * checks. The marks are in the store, so a crash repeats a pass without effect.
 */
import type { LeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { LeaseLost, requireLease } from "../../../shared/records/leader/lease.ts";
import {
  findSilent,
  type MissionPlace,
  markSilent,
  type SilenceSearch,
} from "../../../shared/records/mission/silence.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { startTicker } from "../../../shared/runtime/ticker.ts";
import type { RepositoryContext } from "../../../shared/service-host/repository.ts";
import { StoreError } from "../../../shared/store/store.ts";

/** A silence is found after at most this part of its time, within the bounds. */
const LOOK_FRACTION = 20;
const LOOK_EVERY_MS_MIN = 250;
const LOOK_EVERY_MS_MAX = 15_000;

export interface SilentMissionsContext extends RepositoryContext {
  readonly leases: LeaderLeases;
}

export function startSilentMissions(context: SilentMissionsContext, silenceMs: number): Stop {
  const { store, format, leases, clock, log } = context;
  const now = () => clock.now();
  const leader = leases.of("silent-missions");
  const look = async (signal: AbortSignal): Promise<void> => {
    const lease = await leader.hold();
    if (lease === null) return;
    const search: SilenceSearch = {
      ...{ store, incarnation: format.incarnation, service: "watchdog", now, silenceMs },
      guard: (tx) => requireLease(tx, lease),
    };
    for await (const silent of findSilent(search)) {
      for (const place of silent) {
        if (signal.aborted) return;
        await mark(context, search, place);
      }
      // A long pass must not outlast the lease.
      if ((await leader.hold()) === null) return;
    }
  };
  const stop = startTicker({
    name: "silent missions",
    everyMs: Math.min(LOOK_EVERY_MS_MAX, Math.max(LOOK_EVERY_MS_MIN, silenceMs / LOOK_FRACTION)),
    jitter: 0.1,
    run: look,
    clock,
    log,
  });
  return async () => {
    await stop();
    await leader.release().catch((error: unknown) => log.warn({ error }, "a lease could not be released"));
  };
}

async function mark(
  { log, metrics }: SilentMissionsContext,
  search: SilenceSearch,
  place: MissionPlace,
): Promise<void> {
  const facts = { tenant: place.tenant, mission_id: place.mission };
  try {
    const silence = await markSilent(search, place);
    if (silence === null) return;
    metrics.missionsSilentTotal.inc();
    log.warn(
      { ...facts, ...silence },
      "a mission has no activity, and its coordinator may have lost its context",
    );
  } catch (error) {
    if (error instanceof StoreError || error instanceof LeaseLost) throw error;
    // Other missions must not wait for the repair of this one.
    log.error({ ...facts, error }, "a silent mission could not be marked");
  }
}
