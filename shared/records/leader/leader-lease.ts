/**
 * The leases of the background jobs of one instance, each of which one instance at a time does. The first instance that finds a lease
 * free acquires it. An instance that stops releases it, so that another one can continue at once.
 *
 * The leases of an instance are renewed together: an idle fleet makes one commit for all its jobs.
 */
import { LIMITS } from "../../protocol/limits.ts";
import type { Store } from "../../store/store.ts";
import { acquireLease, type Lease, type LedJob, releaseLease, renewLeases } from "./lease.ts";

export interface LeaderLease {
  /** Returns the lease, acquired or renewed if necessary; null when another instance holds it. */
  hold(): Promise<Lease | null>;
  release(): Promise<void>;
}

export interface LeaderLeases {
  of(job: LedJob): LeaderLease;
}

interface Held {
  readonly lease: Lease;
  renewAtMs: number;
  usedAtMs: number;
}

/** A job that has not asked for so long hangs or rests: another instance may do it when its lease ends. */
const UNUSED_MS_MAX = 2 * LIMITS.leader_renew_ms;

export function createLeaderLeases(store: Store, holder: string, now: () => number): LeaderLeases {
  const held = new Map<LedJob, Held>();
  let renewing: Promise<void> | undefined;
  const renew = async (): Promise<void> => {
    const nowMs = now();
    const used = [...held].filter(([, { usedAtMs }]) => nowMs - usedAtMs <= UNUSED_MS_MAX);
    const leases = used.map(([, { lease }]) => lease);
    const kept = await renewLeases(store, leases, { nowMs, leaseMs: LIMITS.leader_lease_ms });
    for (const [job, one] of used) {
      // Released, or acquired again, meanwhile.
      if (held.get(job) !== one) continue;
      if (kept.has(job)) one.renewAtMs = nowMs + LIMITS.leader_renew_ms;
      else held.delete(job);
    }
  };
  const acquire = async (job: LedJob): Promise<Lease | null> => {
    const nowMs = now();
    const lease = await acquireLease(store, { job, holder, nowMs, leaseMs: LIMITS.leader_lease_ms });
    if (lease === null) held.delete(job);
    else held.set(job, { lease, renewAtMs: nowMs + LIMITS.leader_renew_ms, usedAtMs: nowMs });
    return lease;
  };
  const renewed = async (job: LedJob): Promise<Lease | null> => {
    renewing ??= renew()
      // A row that cannot be read must stop its own job only: each job then tries to renew its lease alone.
      .catch(() => {})
      .finally(() => {
        renewing = undefined;
      });
    await renewing;
    const one = held.get(job);
    // A renewal in progress may have begun without this job.
    return one !== undefined && now() < one.renewAtMs ? one.lease : acquire(job);
  };
  return {
    of: (job) => ({
      async hold() {
        const one = held.get(job);
        if (one === undefined) return acquire(job);
        one.usedAtMs = now();
        return one.usedAtMs < one.renewAtMs ? one.lease : renewed(job);
      },
      async release() {
        const one = held.get(job);
        held.delete(job);
        if (one !== undefined) await releaseLease(store, one.lease);
      },
    }),
  };
}
