/**
 * Leases of background duties (the relay of one partition, the indexer). Any number of instances may run; the lease says which
 * one works. Its end is wall-clock and only decides when somebody may try to take over; safety comes from the fence, which every
 * transaction of the duty checks.
 */
import type { Reader, Store, Tx } from "../../store/store.ts";
import { decode, encode } from "../kv/codec.ts";
import { systemKeys } from "../kv/keyspace.ts";

export interface Lease {
  readonly duty: string;
  readonly holder: string;
  /** Grows by one each time the lease changes hands. */
  readonly fence: number;
}

type LeaseRow = [holder: string, fence: number, endsAtMs: number];

const DEADLINE_MS = 2_000;
/** How many lease times two instances' clocks may lie apart before one no longer respects the other's lease; the fence still does. */
const CLOCKS_APART = 3;

/** An end further away than any lease lasts was written by a clock that ran ahead; waiting for it could take hours. */
export function isCredibleEnd(
  endsAtMs: number,
  { nowMs, leaseMs }: { readonly nowMs: number; readonly leaseMs: number },
): boolean {
  return endsAtMs <= nowMs + CLOCKS_APART * leaseMs;
}

/** The holder's instance stopped working or lost the lease to another. */
export class LeaseLost extends Error {
  readonly duty: string;
  constructor(duty: string) {
    super("the lease of this duty was lost");
    this.name = "LeaseLost";
    this.duty = duty;
  }
}

/** Takes the lease when it is free, has ended, or is this holder's own; null when another holds it. */
export async function acquireLease(
  store: Store,
  wanted: { duty: string; holder: string; nowMs: number; leaseMs: number },
): Promise<Lease | null> {
  const options = { label: "acquire_lease", deadlineMs: DEADLINE_MS, onUnknown: "safe" } as const;
  const { value } = await store.transact(options, async (tx) => {
    const key = systemKeys.lease(wanted.duty);
    const row = await tx.get(key);
    const [holder, fence, endsAtMs] = row ? decode<LeaseRow>(row) : ["", 0, 0];
    const isOwn = holder === wanted.holder;
    const isHeld = endsAtMs > wanted.nowMs && isCredibleEnd(endsAtMs, wanted);
    if (!isOwn && isHeld) return null;
    const next: LeaseRow = [wanted.holder, isOwn ? fence : fence + 1, wanted.nowMs + wanted.leaseMs];
    tx.set(key, encode(next));
    return { duty: wanted.duty, holder: wanted.holder, fence: next[1] };
  });
  return value;
}

/** Who holds a duty's lease now; null: nobody. */
export async function readHolder(reader: Reader, duty: string, nowMs: number): Promise<string | null> {
  const row = await reader.get(systemKeys.lease(duty));
  const [holder, , endsAtMs] = row ? decode<LeaseRow>(row) : ["", 0, 0];
  return holder !== "" && endsAtMs > nowMs ? holder : null;
}

/** Gives the lease back, so that another instance need not wait for its end. */
export async function releaseLease(store: Store, lease: Lease): Promise<void> {
  const options = { label: "release_lease", deadlineMs: DEADLINE_MS, onUnknown: "safe" } as const;
  await store.transact(options, async (tx) => {
    const key = systemKeys.lease(lease.duty);
    const row = await tx.get(key);
    if (!row) return;
    const [holder, fence] = decode<LeaseRow>(row);
    if (holder === lease.holder && fence === lease.fence)
      tx.set(key, encode(["", fence, 0] satisfies LeaseRow));
  });
}

/** For the duty's own transactions: throws {@link LeaseLost} unless the lease is still held. Reads the lease, so it also conflicts with a takeover. */
export async function requireLease(tx: Tx, lease: Lease): Promise<void> {
  const row = await tx.get(systemKeys.lease(lease.duty));
  const [holder, fence] = row ? decode<LeaseRow>(row) : ["", 0];
  if (holder !== lease.holder || fence !== lease.fence) throw new LeaseLost(lease.duty);
}
