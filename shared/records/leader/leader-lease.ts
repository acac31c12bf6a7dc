/**
 * The lease of a background job that one instance at a time does. The first instance that finds the lease
 * free acquires it. An instance that stops releases it, so that another one can continue at once.
 */
import { LIMITS } from "../../protocol/limits.ts";
import type { Store } from "../../store/store.ts";
import { acquireLease, type Lease, releaseLease } from "./lease.ts";

export interface LeaderLease {
  /** Returns the lease, acquired or renewed if necessary; null when another instance holds it. */
  hold(): Promise<Lease | null>;
  release(): Promise<void>;
}

export function createLeaderLease(store: Store, job: string, holder: string, now: () => number): LeaderLease {
  let lease: Lease | null = null;
  let renewAtMs = 0;
  return {
    async hold() {
      const nowMs = now();
      if (lease !== null && nowMs < renewAtMs) return lease;
      lease = await acquireLease(store, { job, holder, nowMs, leaseMs: LIMITS.leader_lease_ms });
      renewAtMs = nowMs + LIMITS.leader_renew_ms;
      return lease;
    },
    async release() {
      const held = lease;
      lease = null;
      if (held !== null) await releaseLease(store, held);
    },
  };
}
