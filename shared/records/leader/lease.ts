/**
 * Leases of background jobs (the relay of one partition, the indexer). Any number of instances may run; the
 * holder of the lease does the work. The end of a lease is wall-clock time and only decides when another
 * instance may take over. Safety comes from the fence, which every transaction of the job checks.
 */
import type { AnchorTarget } from "../../protocol/audit-anchors.ts";
import type { Reader, Store, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { systemKeys } from "../kv/keyspace.ts";

/** The jobs of all services. Two jobs must not share a lease: the instance of the one would keep the other from its work. */
export type LedJob =
  | `relay-${number}`
  | "expiry"
  | "retention"
  | "shredding"
  | "drafts"
  | "locks"
  | "index"
  | "mirror"
  | "artifacts"
  | "silent-missions"
  | "audit-log"
  | "access-log"
  | `anchor-${AnchorTarget}`
  | "scrub"
  | "encryption";

export interface Lease {
  readonly job: LedJob;
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
  readonly job: LedJob;
  constructor(job: LedJob) {
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
  wanted: { job: LedJob; holder: string; nowMs: number; leaseMs: number },
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

/** Renews leases of one holder in one transaction; returns the jobs whose leases it still holds. */
export async function renewLeases(
  store: Store,
  leases: readonly Lease[],
  { nowMs, leaseMs }: { readonly nowMs: number; readonly leaseMs: number },
): Promise<ReadonlySet<LedJob>> {
  const options = { label: "renew_leases", deadlineMs: DEADLINE_MS, onUnknown: "safe" } as const;
  const { value } = await store.transact(options, async (tx) => {
    const rows = await Promise.all(leases.map(({ job }) => tx.get(systemKeys.lease(job))));
    const kept = leases.filter((lease, i) => isHeldBy(rows[i], lease));
    for (const { job, holder, fence } of kept)
      tx.set(systemKeys.lease(job), encode([holder, fence, nowMs + leaseMs] satisfies LeaseRow));
    return new Set(kept.map(({ job }) => job));
  });
  return value;
}

/** Another holder has another fence; a released lease has no holder. */
function isHeldBy(row: Uint8Array | undefined, lease: Lease): boolean {
  const [holder, fence] = row ? decode<LeaseRow>(row) : ["", 0];
  return holder === lease.holder && fence === lease.fence;
}

/** The current holder of a job's lease; null if there is none. */
export async function readHolder(reader: Reader, job: LedJob, nowMs: number): Promise<string | null> {
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
    if (isHeldBy(row, lease)) tx.set(key, encode(["", lease.fence, 0] satisfies LeaseRow));
  });
}

/**
 * Throws {@link LeaseLost} unless the lease is still held. Every transaction of a job calls this: the read
 * makes the transaction conflict with a takeover.
 */
export async function requireLease(tx: Tx, lease: Lease): Promise<void> {
  if (!isHeldBy(await tx.get(systemKeys.lease(lease.job)), lease)) throw new LeaseLost(lease.job);
}
