/** What the background work of encryption needs. */
import type { LeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { type Lease, requireLease } from "../../../shared/records/leader/lease.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import type { EncryptionKeys } from "../../../shared/service-host/store/encryption.ts";
import type { Store, Tx } from "../../../shared/store/store.ts";

export interface EncryptorContext extends ServiceContext {
  readonly store: Store;
  readonly encryption?: EncryptionKeys | null;
  readonly leases: LeaderLeases;
}

/** Renews the lease. null: another watchdog has it. */
export type Hold = () => Promise<Lease | null>;

/** Checks the lease in each of its transactions. */
export const guardOf = (lease: Lease) => (tx: Tx) => requireLease(tx, lease);
