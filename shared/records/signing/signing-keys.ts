/** The operations on signing keys. Keys belong to the whole fleet, so only operators of the default tenant change them. */
import { FleetError, invalid } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type {
  RevokedKey,
  RotatedKeys,
  SigningKeyList,
  SigningKeyRecord,
} from "../../protocol/signing-keys.ts";
import type { Store } from "../../store/store.ts";
import { principalActor } from "../audit/audit.ts";
import type { TenantCaller } from "../audit/tenant-audit.ts";
import { systemKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import {
  areSignaturesRequired,
  findSigningKey,
  isKeyInUse,
  listSigningKeys,
  type StoredSigningKey,
} from "./key-record.ts";
import { endUseBefore, type KeyChange, requestRotation, revokeSigningKey } from "./key-registry.ts";

/** The time for the holder of a key to go over to the next one, before its revocation. */
const REPLACED_WITHIN_MS = 2_500;
const POLL_MS = 500;

export class SigningKeys {
  readonly #store: Store;
  readonly #transactions: Transactions;
  readonly #now: () => number;

  constructor(store: Store, transactions: Transactions, now: () => number) {
    this.#store = store;
    this.#transactions = transactions;
    this.#now = now;
  }

  async list(): Promise<SigningKeyList> {
    return this.#transactions.read("signing_keys", async (reader) => ({
      keys: (await listSigningKeys(reader)).map(shown),
      signatures_required: await areSignaturesRequired(reader),
    }));
  }

  /** Requests a rotation from the holders of the keys, which make it within seconds. Throws CONFLICT if there are none. */
  async rotate(by: TenantCaller, { key_id: id }: QueryParams<"key_rotate">): Promise<RotatedKeys> {
    requireDefaultTenant(by);
    const { value } = await this.#transactions.transact("key_rotate", async (tx) => {
      const active = (await listSigningKeys(tx)).filter(isKeyInUse);
      const wanted = active.filter(({ key_id }) => id === undefined || key_id === id);
      if (wanted.length === 0) throw noneActive(id);
      for (const { key_id } of wanted) await requestRotation(tx, key_id, this.#change(by));
      return wanted;
    });
    return { keys: value.map(shown) };
  }

  /**
   * Revokes a key. One in use is replaced by its holder first: a service cannot sign the revocation of its own key. If the holder does not answer,
   * the key is revoked nevertheless, by a service with another key. Throws UNAVAILABLE while this service has no other one. If this process dies before the
   * revocation, the key is retired at most: no service signs with it, and the call can be repeated.
   */
  async revoke(
    by: TenantCaller,
    { key_id: keyId, since, reason }: QueryParams<"key_revoke">,
  ): Promise<RevokedKey> {
    requireDefaultTenant(by);
    if (since !== undefined && Date.parse(since) > this.#now())
      throw invalid("since", "a time that is not in the future", since);
    await this.#replaced(by, keyId);
    const revocation = { keyId, since, reason };
    await this.#transactions.transact("key_retire", (tx) => endUseBefore(tx, revocation, this.#change(by)));
    const { value } = await this.#transactions.transact("key_revoke", (tx) =>
      revokeSigningKey(tx, revocation, this.#change(by)),
    );
    return { key: shown(value) };
  }

  /** Resolves when the key is no longer in use, and at the latest after {@link REPLACED_WITHIN_MS}. */
  async #replaced(by: TenantCaller, id: string): Promise<void> {
    const { value: isActive } = await this.#transactions.transact("key_rotate", async (tx) => {
      if (!isKeyInUse(await findSigningKey(tx, id))) return false;
      await requestRotation(tx, id, this.#change(by));
      return true;
    });
    if (!isActive) return;
    const signal = AbortSignal.timeout(REPLACED_WITHIN_MS);
    const key = systemKeys.signingKey(id);
    while (!signal.aborted) {
      const seen = await this.#transactions.read("signing_key", async (reader) =>
        isKeyInUse(await findSigningKey(reader, id)) ? { value: await reader.get(key) } : null,
      );
      if (seen === null) return;
      await this.#store.changed(key, seen.value, { signal, pollMs: POLL_MS });
    }
  }

  #change({ caller }: TenantCaller): KeyChange {
    return { actor: principalActor(caller), nowMs: this.#now() };
  }
}

function shown({ entries: _entries, ...key }: StoredSigningKey): SigningKeyRecord {
  return key as unknown as SigningKeyRecord;
}

function requireDefaultTenant({ tenant }: TenantCaller): void {
  if (tenant === DEFAULT_TENANT) return;
  throw new FleetError(
    "FORBIDDEN",
    "signing keys belong to the whole fleet, and only operators of the default tenant change them",
    {
      details: { tenant, needed: DEFAULT_TENANT },
    },
  );
}

function noneActive(id: string | undefined): FleetError {
  if (id === undefined)
    return new FleetError("CONFLICT", "no signing key is in use; services sign with FLEET_SIGNING_KEY");
  return new FleetError("CONFLICT", "there is no such signing key in use", { details: { key_id: id } });
}
