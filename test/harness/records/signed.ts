/** A repository whose commits are signed, and keys for those who sign what they should not. */
import { newSigningKeyPem, type SigningKey, signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { beginSigning, writeSignatures } from "../../../shared/records/signing/commit-signing.ts";
import { addSigningKey, serviceActor } from "../../../shared/records/signing/key-registry.ts";
import { signedStore } from "../../../shared/records/signing/signed-store.ts";
import type { Store } from "../../../shared/store/store.ts";
import { type Engine, openTestRecords, type TestRecords } from "./records.ts";

export const newKey = (): SigningKey => signingKeyFrom(newSigningKeyPem());

export const WRITING = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

export interface SignedRecords extends TestRecords {
  /** The store without signing. */
  readonly raw: Store;
  readonly key: SigningKey;
}

/** `store` and `repository` sign with `key`, which is registered. */
export async function openSignedRecords(
  engine: Engine,
  now: () => number = Date.now,
  { isRegistered = true } = {},
): Promise<SignedRecords> {
  const records = await openTestRecords(engine, now);
  const key = newKey();
  const store = storeSignedBy(records.store, key);
  if (isRegistered) await register(store, key, now());
  return { ...records, raw: records.store, store, key, repository: repositoryOn(store, records, now) };
}

export function repositoryOn(
  store: Store,
  { format }: Pick<TestRecords, "format">,
  now: () => number = Date.now,
): CheckpointRepository {
  return new CheckpointRepository({ store, format, finder: "test", now });
}

/** A store that signs with one key and has no other. */
export function storeSignedBy(store: Store, key: SigningKey): Store {
  return signedStore(store, { key, renew: async () => {} });
}

/** The store as a thief of the key writes to it: signed, without a look at the registry. */
export function storeOfThief(store: Store, key: SigningKey): Store {
  return Object.assign(Object.create(store) as Store, {
    transact: ((options, body) =>
      store.transact(options, async (tx) => {
        beginSigning(tx, key);
        const value = await body(tx);
        await writeSignatures(tx);
        return value;
      })) satisfies Store["transact"],
    read: ((options, body) => store.read(options, body)) satisfies Store["read"],
  });
}

export async function register(store: Store, key: SigningKey, nowMs = Date.now()): Promise<void> {
  await store.transact(WRITING, (tx) =>
    addSigningKey(tx, key, { actor: serviceActor("writer"), nowMs, replaces: null }),
  );
}
