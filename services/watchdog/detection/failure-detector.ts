/**
 * Finds who is silent, and has that noted. Silence here is the first witness; the second is the store: the lease of the agent, which other
 * watchdogs renew as well, and what it wrote last. Only when both are over is it taken for dead.
 */
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Noted, Sighting } from "../../../shared/records/recovery/coordination.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import type { Attention } from "./observed-clock.ts";
import type { NoteFailure } from "./record-failure.ts";
import type { Watch, Watches } from "./watches.ts";

/** The longest sleep: leases that were read meanwhile may be over already. */
const LOOK_EVERY_MS = 100;
const CONCURRENCY = 32;
/** Of a task that waits for a person, or is being handed off: its agent's silence matters only when that comes to nothing; or is damaged. */
const LOOK_AGAIN_MS = 30_000;
/** What the store says is over at a time is not over in the moment of it. */
const JUST_AFTER_MS = 5;

export interface LapsesParts extends ServiceContext {
  readonly attention: Attention;
  readonly watches: Watches;
  readonly note: NoteFailure;
}

/** Starts at once. Stop finishes what is being noted. */
export function startLapses(parts: LapsesParts, { recovery }: Pick<CheckpointRepository, "recovery">): Stop {
  const { attention, watches, note, metrics, clock, log } = parts;
  const stopping = new AbortController();

  /** null: nothing can be noted of a task whose records are damaged, and the others must not wait for the person who mends them. */
  const tryToNote = async (watch: Watch): Promise<Noted | null> => {
    const { tenant, task } = watch;
    try {
      return await note({ tenant, task }, sightingOf(watch));
    } catch (error) {
      if (!(error instanceof FleetError) || error.retryable) throw error;
      log.error({ error, tenant, task_id: task }, "the failure of an agent cannot be noted");
      return null;
    }
  };

  const handle = async (watch: Watch): Promise<void> => {
    const { lastSignAt, silenceMs } = watch;
    const noted = await tryToNote(watch);
    if (noted === null) return watches.postpone(watch, attention.now() + LOOK_AGAIN_MS);
    if (noted.applied) {
      metrics.recoveryDetectMs.observe(Math.max(0, clock.now() - lastSignAt - silenceMs));
      return watches.drop(watch);
    }
    switch (noted.why) {
      case "alive":
        return watches.postpone(
          watch,
          attention.now() + Math.max(0, noted.untilMs - clock.now()) + JUST_AFTER_MS,
        );
      case "blocked":
      case "handing_off":
        return watches.postpone(watch, attention.now() + LOOK_AGAIN_MS);
      case "unknown":
        // After a restore of the store, for one.
        await recovery.dropLeases([watch]);
        return watches.drop(watch);
      case "superseded":
      case "over":
        return watches.drop(watch);
    }
  };

  const looking = runWorker({
    name: "lapses",
    take: async () => {
      const silent = watches.silent(attention.now(), attention.since);
      if (silent.length === 0 || !(await attention.isUpToDate())) return [];
      // What had been on its way has come.
      return watches.silent(attention.now(), attention.since);
    },
    handle,
    concurrency: CONCURRENCY,
    idle: {
      get ms() {
        return Math.min(LOOK_EVERY_MS, Math.max(1, watches.quietMs(attention.now())));
      },
    },
    signal: stopping.signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await looking;
  };
}

function sightingOf({ agentId, agentType, fence, lastSignAt, silenceMs, isOverdue }: Watch): Sighting {
  const seconds = Math.round(silenceMs / 100) / 10;
  return {
    class: isOverdue ? "timeout" : "crash",
    signal: isOverdue ? "step_overdue" : "lease_lapsed",
    agent_id: agentId,
    agent_type: agentType === "" ? null : agentType,
    fence,
    details: isOverdue ? "its step is overdue" : `no sign of life for ${seconds} s`,
    resets_at: null,
    last_sign_at: new Date(lastSignAt).toISOString(),
  };
}
