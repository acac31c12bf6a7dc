/**
 * The acts of encryption at rest: an operator requests a rotation, and a service begins to wrap by a new root key. Both are in the audit chain of the default
 * tenant, and the request is in one transaction with its entry. A watchdog carries it out, also after a crash.
 */
import type { EncryptionRotation } from "../../protocol/encryption.ts";
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Store } from "../../store/store.ts";
import { actOf, appendTenantAudit, type TenantCaller } from "../audit/tenant-audit.ts";
import type { Transactions } from "../kv/transactions.ts";
import { readEncryptionState, writeEncryptionState } from "./encryption-state.ts";

const WRITE = { label: "encryption_rewrap", deadlineMs: 3_000, onUnknown: "safe" } as const;

export class EncryptionActs {
  readonly #transactions: Transactions;
  readonly #now: () => number;

  constructor(transactions: Transactions, now: () => number) {
    this.#transactions = transactions;
    this.#now = now;
  }

  /** Requests new bucket keys. Throws CONFLICT if the store is not encrypted, FORBIDDEN for other tenants than the default one. */
  async rotate(by: TenantCaller): Promise<EncryptionRotation> {
    if (by.tenant !== DEFAULT_TENANT)
      throw new FleetError(
        "FORBIDDEN",
        "the keys of encryption belong to the whole fleet, and only operators of the default tenant rotate them",
        { details: { tenant: by.tenant, needed: DEFAULT_TENANT } },
      );
    const nowMs = this.#now();
    const { value: rotation } = await this.#transactions.transact("encryption_rotate", async (tx) => {
      const state = await readEncryptionState(tx);
      if (state === null)
        throw new FleetError("CONFLICT", "the store is not encrypted, so it has no keys to rotate", {
          details: { setting: "FLEET_ENCRYPTION_KEY" },
        });
      const next = state.rotations + 1;
      writeEncryptionState(tx, { ...state, rotations: next });
      await appendTenantAudit(tx, by.tenant, [actOf(by, "encryption_rotate", nowMs, { rotation: next })]);
      return next;
    });
    return { rotation, requested_at: new Date(nowMs).toISOString() };
  }
}

/** Records that a service wraps bucket keys by another root key, before it does. After a crash it is recorded again. */
export async function recordRewrap(
  store: Store,
  { service, rootKey, keys, nowMs }: { service: string; rootKey: string; keys: number; nowMs: number },
): Promise<void> {
  const actor = { id: service, type: "service" } as const;
  const at = new Date(nowMs).toISOString();
  const subject = { root_key: rootKey, bucket_keys: keys };
  await store.transact(WRITE, async (tx) => {
    await appendTenantAudit(tx, DEFAULT_TENANT, [{ action: "encryption_rewrap", actor, at, subject }]);
  });
}
