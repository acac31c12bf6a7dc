/**
 * The failure detector: finds silent owners and records their failures. Silence here is one condition. The
 * other is in the store: the lease of the agent, which other watchdogs renew as well, and its last write. An
 * agent has failed when both have expired.
 */
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Sighting } from "../../../shared/records/recovery/observations.ts";
import type { NotedFailure } from "../../../shared/records/recovery-actions.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { runWorker } from "../../../shared/runtime/worker.ts";
import type { MonitoredOwner, MonitoredOwners } from "./monitored-owners.ts";
import type { ObservedClock } from "./observed-clock.ts";
import type { RecordFailure } from "./record-failure.ts";

const CONCURRENCY = 32;
/**
 * The pause for a task that is blocked, in a handoff or damaged: silence matters only when that has ended.
 */
const SEARCH_AGAIN_MS = 30_000;
/** A lease that ends at a time has not ended in that millisecond. */
const JUST_AFTER_MS = 5;

export interface FailureDetectorParts extends ServiceContext {
  readonly observedClock: ObservedClock;
  readonly owners: MonitoredOwners;
  readonly recordFailure: RecordFailure;
}

/** Stop finishes the failures that are being recorded. */
export function startFailureDetector(
  parts: FailureDetectorParts,
  { recoveryActions }: Pick<CheckpointRepository, "recoveryActions">,
): Stop {
  const { observedClock, owners, metrics, clock, log } = parts;
  const stopping = new AbortController();

  const handle = async (owner: MonitoredOwner): Promise<void> => {
    const { lastSignAt, silenceMs } = owner;
    const recorded = await record(parts, owner);
    if (recorded === null) return owners.postpone(owner, observedClock.now() + SEARCH_AGAIN_MS);
    if (recorded.applied) {
      metrics.recoveryDetectMs.observe(Math.max(0, clock.now() - lastSignAt - silenceMs));
      return owners.drop(owner);
    }
    switch (recorded.why) {
      case "agent_alive": {
        const leftMs = Math.max(0, (recorded.untilMs ?? 0) - clock.now());
        return owners.postpone(owner, observedClock.now() + leftMs + JUST_AFTER_MS);
      }
      case "blocked":
      case "handing_off":
        return owners.postpone(owner, observedClock.now() + SEARCH_AGAIN_MS);
      case "unknown_task":
        // This happens after a restore of the store.
        await recoveryActions.dropLeases([owner]);
        return owners.drop(owner);
      default:
        return owners.drop(owner);
    }
  };

  const searching = runWorker({
    name: "failure detector",
    take: async () => {
      const silent = owners.silent(observedClock.now(), observedClock.since);
      if (silent.length === 0 || !(await observedClock.isUpToDate())) return [];
      // Again, because heartbeats that were on their way have arrived.
      return owners.silent(observedClock.now(), observedClock.since);
    },
    handle,
    concurrency: CONCURRENCY,
    // It never sleeps until the next silence: a lease that is read meanwhile may have expired already.
    idle: owners.pause(() => owners.quietMs(observedClock.now())),
    signal: stopping.signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await searching;
  };
}

/**
 * null: no failure can be recorded for a task with damaged records, and other tasks must not wait for its
 * repair.
 */
async function record(
  { recordFailure, log }: FailureDetectorParts,
  owner: MonitoredOwner,
): Promise<NotedFailure | null> {
  const { tenant, task } = owner;
  try {
    return await recordFailure({ tenant, task }, failureOf(owner));
  } catch (error) {
    if (!(error instanceof FleetError) || error.retryable) throw error;
    log.error({ error, tenant, task_id: task }, "the failure of an agent cannot be recorded");
    return null;
  }
}

function failureOf({
  agentId,
  agentType,
  fence,
  lastSignAt,
  silenceMs,
  isOverdue,
}: MonitoredOwner): Sighting {
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
