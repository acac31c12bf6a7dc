/**
 * The bucket keys of each tenant and of the system, unwrapped by the root keys and kept for a few minutes: that long the store works without the
 * service of the root keys, and that long a key whose use was forbidden there still works here.
 */
import { DATA_KEY_BYTES, type DataKey } from "../../../integrity/encryption/encrypted-bytes.ts";
import {
  KeyEncryptionError,
  type KeyEncryptionKey,
  type KeyEncryptionKeys,
} from "../../../integrity/encryption/key-encryption-key.ts";
import { type Bytes, type Store, StoreError, type TransactOptions } from "../../../store/store.ts";
import { systemKeys } from "../../kv/keyspace.ts";
import { keyIdText } from "../sealed-value.ts";
import {
  type BucketRecord,
  bucketContext,
  dataKeyFrom,
  decodeBucket,
  encodeBucket,
  newDataKey,
} from "./key-record.ts";
import type { KeyPlace } from "./place.ts";

/** The keys of one owner. */
export interface BucketKeySet {
  /** Wraps new data keys. null: it was changed or moved, which must not stop the work of other tenants. */
  readonly newest: DataKey | null;
  readonly byId: ReadonlyMap<string, DataKey>;
  /** By the clock of the cache. */
  readonly until: number;
}

const WRITE = {
  label: "bucket_key",
  deadlineMs: 5_000,
  onUnknown: "safe",
} as const satisfies TransactOptions;
/** Bucket keys of one owner. */
export const BUCKET_KEYS_MAX = 100;
const OWNERS_MAX = 10_000;
export const BUCKET_KEYS_KEPT_MS = 5 * 60_000;

/** In progress, by the owner. */
type Work = Map<string, Promise<BucketKeySet | null>>;

export class BucketKeys {
  readonly #store: Store;
  readonly #roots: KeyEncryptionKeys;
  readonly #now: () => number;
  readonly #known = new Map<string, BucketKeySet>();
  readonly #loading: Work = new Map();
  readonly #making: Work = new Map();

  /** `now`: a monotonic clock in milliseconds. `store`: the one without encryption. */
  constructor(store: Store, roots: KeyEncryptionKeys, now: () => number) {
    this.#store = store;
    this.#roots = roots;
    this.#now = now;
  }

  /** undefined: they must be loaded first. */
  known(owner: KeyPlace): BucketKeySet | undefined {
    const found = this.#known.get(owner.id);
    return found === undefined || found.until <= this.#now() ? undefined : found;
  }

  /** null: the owner has none yet. Throws StoreError `unavailable` while the root keys cannot be used. */
  async load(owner: KeyPlace): Promise<BucketKeySet | null> {
    return this.known(owner) ?? (await this.#once(this.#loading, owner, () => this.#read(owner)));
  }

  /** Reads the rows again, because another process may have made a key. What is known needs no root key. */
  reload(owner: KeyPlace): Promise<BucketKeySet | null> {
    return this.#read(owner);
  }

  forget(owner: KeyPlace): void {
    this.#known.delete(owner.id);
  }

  /** As {@link load}; makes the first key of the owner. Of two services that do this at once, one key is kept. */
  async loadOrMake(owner: KeyPlace): Promise<BucketKeySet> {
    const known = await this.load(owner);
    if (known !== null) return known;
    const made = await this.#once(this.#making, owner, async () => {
      await this.#addFirst(owner);
      return this.#read(owner);
    });
    if (made === null) throw new StoreError("unavailable", "the bucket key that was made is gone");
    return made;
  }

  /** A new key, which is not in the store yet. */
  fresh(owner: KeyPlace): Promise<BucketRecord> {
    const { key, secret } = newDataKey();
    return this.wrapped(owner, key.id, secret);
  }

  /** The record of a bucket key, wrapped by the first root key. */
  async wrapped(owner: KeyPlace, id: Bytes, secret: Bytes): Promise<BucketRecord> {
    const [root] = this.#roots;
    const wrapped = await withRoot(() => root.wrap(secret, bucketContext(owner, id)));
    return { id, root: root.id, wrapped, created_at: new Date().toISOString() };
  }

  /** null: the record was changed, or is of another owner. Throws StoreError `unavailable`. */
  async unwrap(owner: KeyPlace, record: BucketRecord): Promise<Bytes | null> {
    const root = this.#rootOf(record);
    try {
      const secret = await withRoot(() => root.unwrap(record.wrapped, bucketContext(owner, record.id)));
      return secret.length === DATA_KEY_BYTES ? secret : null;
    } catch (error) {
      if (error instanceof KeyEncryptionError) return null;
      throw error;
    }
  }

  get firstRoot(): string {
    return this.#roots[0].id;
  }

  #rootOf({ root }: BucketRecord): KeyEncryptionKey {
    const found = this.#roots.find(({ id }) => id === root);
    if (found !== undefined) return found;
    throw new StoreError(
      "unavailable",
      "the store is encrypted with a root key that the service does not have",
      {
        details: {
          root_key: root,
          setting: "FLEET_ENCRYPTION_KEY",
          hint: "add this root key to FLEET_ENCRYPTION_KEY, after the one for new keys",
        },
      },
    );
  }

  /** Unless another service was faster. */
  async #addFirst(owner: KeyPlace): Promise<void> {
    const record = await this.fresh(owner);
    await this.#store.transact(WRITE, async (tx) => {
      const { rows } = await tx.getRange(systemKeys.bucketKeysOf(owner.tenant), { limit: 1 });
      if (rows.length === 0) tx.set(systemKeys.bucketKey(owner.tenant, 1), encodeBucket(record));
    });
    this.#known.delete(owner.id);
  }

  /** One at a time, so that many transactions ask the service of the root keys once. */
  #once(running: Work, owner: KeyPlace, work: () => Promise<BucketKeySet | null>): ReturnType<typeof work> {
    const known = running.get(owner.id);
    if (known !== undefined) return known;
    const begun = work().finally(() => running.delete(owner.id));
    running.set(owner.id, begun);
    return begun;
  }

  async #read(owner: KeyPlace): Promise<BucketKeySet | null> {
    const range = systemKeys.bucketKeysOf(owner.tenant);
    const { rows } = await this.#store.read(WRITE, (reader) =>
      reader.getRange(range, { limit: BUCKET_KEYS_MAX }),
    );
    if (rows.length === 0) return null;
    const before = this.known(owner);
    const keys = await Promise.all(
      rows.map(async ({ value }) => {
        const record = decodeBucket(value);
        if (record === null) return null;
        const known = before?.byId.get(keyIdText(record.id));
        if (known !== undefined) return known;
        const secret = await this.unwrap(owner, record);
        return secret === null ? null : dataKeyFrom(record.id, secret);
      }),
    );
    const newest = keys.at(-1) ?? null;
    const sound = keys.filter((key) => key !== null);
    const byId = new Map(sound.map((key) => [keyIdText(key.id), key]));
    const buckets = { newest, byId, until: before?.until ?? this.#now() + BUCKET_KEYS_KEPT_MS };
    if (this.#known.size >= OWNERS_MAX) this.#known.clear();
    this.#known.set(owner.id, buckets);
    return buckets;
  }
}

/** `invalid` is passed on: the wrapped key is damaged, and its service works. */
async function withRoot<T>(use: () => Promise<T>): Promise<T> {
  try {
    return await use();
  } catch (cause) {
    if (!(cause instanceof KeyEncryptionError) || cause.kind === "invalid") throw cause;
    throw new StoreError("unavailable", "the root key of the encryption cannot be used", {
      details: { reason: cause.kind, problem: cause.message, ...cause.details },
      cause,
    });
  }
}
