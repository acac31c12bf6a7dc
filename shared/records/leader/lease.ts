/**
 * Leases of background jobs (the relay of one partition, the indexer). Any number of instances may run; the
 * holder of the lease does the work. The end of a lease is wall-clock time and only decides when another
 * instance may take over. Safety comes from the fence, which every transaction of the job checks.
 */
import type { Reader, Store, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { systemKeys } from "../kv/keyspace.ts";

export interface Lease {
  readonly job: string;
  readonly holder: string;
  /** Rises by one each time the holder changes. */
  readonly fence: number;
}

type LeaseRow = [holder: string, fence: number, endsAtMs: number];

const DEADLINE_MS = 2_000;
/**
 * The tolerated clock difference between instances, in lease durations. With a larger one a lease is taken
 * early; the fence keeps that safe.
 */
const CLOCK_SKEW_LEASES = 3;

/**
 * False for an end so late that a clock that ran ahead must have written it. Waiting for such an end could
 * take hours.
 */
export function isCredibleEnd(
  endsAtMs: number,
  { nowMs, leaseMs }: { readonly nowMs: number; readonly leaseMs: number },
): boolean {
  return endsAtMs <= nowMs + CLOCK_SKEW_LEASES * leaseMs;
}

/** The instance no longer holds the lease. */
export class LeaseLost extends Error {
  readonly job: string;
  constructor(job: string) {
    super("the lease of this job was lost");
    this.name = "LeaseLost";
    this.job = job;
  }
}

/**
 * Acquires the lease if it is free, has ended or already belongs to this holder; null when another instance
 * holds it.
 */
export async function acquireLease(
  store: Store,
  wanted: { job: string; holder: string; nowMs: number; leaseMs: number },
): Promise<Lease | null> {
  const options = { label: "acquire_lease", deadlineMs: DEADLINE_MS, onUnknown: "safe" } as const;
  const { value } = await store.transact(options, async (tx) => {
    const key = systemKeys.lease(wanted.job);
    const row = await tx.get(key);
    const [holder, fence, endsAtMs] = row ? decode<LeaseRow>(row) : ["", 0, 0];
    const isOwn = holder === wanted.holder;
    const isHeld = endsAtMs > wanted.nowMs && isCredibleEnd(endsAtMs, wanted);
    if (!isOwn && isHeld) return null;
    const next: LeaseRow = [wanted.holder, isOwn ? fence : fence + 1, wanted.nowMs + wanted.leaseMs];
    tx.set(key, encode(next));
    return { job: wanted.job, holder: wanted.holder, fence: next[1] };
  });
  return value;
}

/** The current holder of a job's lease; null if there is none. */
export async function readHolder(reader: Reader, job: string, nowMs: number): Promise<string | null> {
  const row = await reader.get(systemKeys.lease(job));
  const [holder, , endsAtMs] = row ? decode<LeaseRow>(row) : ["", 0, 0];
  return holder !== "" && endsAtMs > nowMs ? holder : null;
}

/** Releases the lease, so that another instance need not wait for its end. */
export async function releaseLease(store: Store, lease: Lease): Promise<void> {
  const options = { label: "release_lease", deadlineMs: DEADLINE_MS, onUnknown: "safe" } as const;
  await store.transact(options, async (tx) => {
    const key = systemKeys.lease(lease.job);
    const row = await tx.get(key);
    if (!row) return;
    const [holder, fence] = decode<LeaseRow>(row);
    if (holder === lease.holder && fence === lease.fence)
      tx.set(key, encode(["", fence, 0] satisfies LeaseRow));
  });
}

/**
 * Throws {@link LeaseLost} unless the lease is still held. Every transaction of a job calls this: the read
 * makes the transaction conflict with a takeover.
 */
export async function requireLease(tx: Tx, lease: Lease): Promise<void> {
  const row = await tx.get(systemKeys.lease(lease.job));
  const [holder, fence] = row ? decode<LeaseRow>(row) : ["", 0];
  if (holder !== lease.holder || fence !== lease.fence) throw new LeaseLost(lease.job);
}
