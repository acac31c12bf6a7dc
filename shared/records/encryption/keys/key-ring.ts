/** The data keys of all places, unwrapped when they are needed and kept as long as the bucket keys that wrapped them. */
import type { DataKey } from "../../../integrity/encryption/encrypted-bytes.ts";
import type { KeyEncryptionKeys } from "../../../integrity/encryption/key-encryption-key.ts";
import { sameBytes } from "../../../store/same-bytes.ts";
import {
  type Bytes,
  type Reader,
  type Store,
  StoreError,
  type TransactOptions,
  type Tx,
} from "../../../store/store.ts";
import { isDamage, UnreadableValue } from "../../kv/codec.ts";
import { systemKeys } from "../../kv/keyspace.ts";
import { keyIdText } from "../sealed-value.ts";
import { BucketKeys } from "./bucket-keys.ts";
import {
  bucketsOfRow,
  type DataKeys,
  dataKeysKey,
  decodeBucket,
  encodeNewDataKey,
  newDataKey,
  unwrapDataKeys,
} from "./key-record.ts";
import { type KeyPlace, ownerOf } from "./place.ts";

/** The keys of a place, and the row from which they were unwrapped. */
export interface UnwrappedKeys extends DataKeys {
  readonly row: Bytes;
  readonly until: number;
}

/** A new key of a place: its row must be written in the transaction that uses it. */
export interface FreshKeys {
  readonly row: Bytes;
  readonly keys: UnwrappedKeys;
  /** The id of the bucket key that wrapped it. */
  readonly bucket: string;
}

/**
 * Whether a bucket key is still the newest of its owner, in this transaction and at its commit. Otherwise a rotation could remove it as unused while a
 * new data key is wrapped by it.
 */
export async function isNewestBucket(tx: Tx, owner: KeyPlace, bucket: string): Promise<boolean> {
  const range = systemKeys.bucketKeysOf(owner.tenant);
  tx.addReadConflict(range);
  const { rows } = await tx.snapshot.getRange(range, { limit: 1, reverse: true });
  const record = rows[0] === undefined ? null : decodeBucket(rows[0].value);
  return record !== null && keyIdText(record.id) === bucket;
}

const WRITE = { label: "data_key", deadlineMs: 5_000, onUnknown: "safe" } as const satisfies TransactOptions;
/** Of about 1 KB each. */
const PLACES_MAX = 20_000;
/** Rotations that may come between the load of a bucket key and its use. */
const ROTATIONS_MAX = 5;

export interface KeyRingOptions {
  /** A monotonic clock in milliseconds. */
  readonly now?: () => number;
}

export class KeyRing {
  readonly buckets: BucketKeys;
  readonly #store: Store;
  readonly #now: () => number;
  /** The place that was used last is the last. */
  readonly #known = new Map<string, UnwrappedKeys>();

  /** `store`: the one without encryption. */
  constructor(store: Store, roots: KeyEncryptionKeys, options: KeyRingOptions = {}) {
    this.#store = store;
    this.#now = options.now ?? (() => performance.now());
    this.buckets = new BucketKeys(store, roots, this.#now);
  }

  /** undefined: they must be loaded first. */
  known(place: KeyPlace): UnwrappedKeys | undefined {
    const found = this.#known.get(place.id);
    return found === undefined || found.until <= this.#now() ? undefined : found;
  }

  forget(place: KeyPlace): void {
    this.#known.delete(place.id);
  }

  remember(place: KeyPlace, keys: UnwrappedKeys): void {
    this.#known.delete(place.id);
    if (this.#known.size >= PLACES_MAX) {
      const [oldest = ""] = this.#known.keys();
      this.#known.delete(oldest);
    }
    this.#known.set(place.id, keys);
  }

  /** The keys in the rows that `reader` sees, by the place's id; absent where there is none, null where they are damaged. */
  async fetch(
    reader: Reader,
    places: readonly KeyPlace[],
  ): Promise<ReadonlyMap<string, UnwrappedKeys | null>> {
    const rows = await reader.getMany(places.map(dataKeysKey));
    const found = new Map<string, UnwrappedKeys | null>();
    for (const [i, place] of places.entries()) {
      const row = rows[i];
      if (row !== undefined) found.set(place.id, await this.#unwrapped(place, row));
    }
    return found;
  }

  /** Makes everything known that a transaction needs to write rows of a place, except the keys of a task. */
  async prepare(place: KeyPlace): Promise<void> {
    await this.buckets.loadOrMake(ownerOf(place));
    if (place.task === null && this.known(place) === undefined) await this.#loadOrMake(place);
  }

  /** The keys of a place, from the store if need be; null: it has none. */
  async find(place: KeyPlace): Promise<UnwrappedKeys | null> {
    const known = this.known(place);
    if (known !== undefined) return known;
    const found = await this.#store.read(WRITE, (reader) => this.fetch(reader, [place]));
    return found.get(place.id) ?? null;
  }

  /** Whether the row of a place is there and cannot be unwrapped, by what the store has now. */
  async isDamaged(place: KeyPlace): Promise<boolean> {
    const found = await this.#store.read(WRITE, (reader) => this.fetch(reader, [place]));
    return found.get(place.id) === null;
  }

  /** A new key for a place; null: {@link prepare} is needed first. */
  fresh(place: KeyPlace): FreshKeys | null {
    const buckets = this.buckets.known(ownerOf(place));
    if (buckets === undefined) return null;
    if (buckets.newest === null)
      throw new UnreadableValue("the newest bucket key of the tenant was changed or moved");
    const made = newDataKey();
    const row = encodeNewDataKey(buckets.newest, place, made);
    const byId = new Map<string, DataKey>([[keyIdText(made.key.id), made.key]]);
    const bucket = keyIdText(buckets.newest.id);
    return { row, keys: { newest: made.key, byId, row, until: buckets.until }, bucket };
  }

  /** The keys of a tenant or the system. In a transaction of its own: many tasks write the first rows of a tenant at once. */
  async #loadOrMake(place: KeyPlace): Promise<void> {
    const owner = ownerOf(place);
    for (let attempt = 1; attempt <= ROTATIONS_MAX; attempt += 1) {
      await this.buckets.loadOrMake(owner);
      const { value: row } = await this.#store.transact(WRITE, (tx) => this.#readOrWrite(tx, place));
      if (row === null) {
        this.buckets.forget(owner);
        continue;
      }
      if ((await this.#unwrapped(place, row)) !== null) return;
      throw new UnreadableValue("the keys of the tenant were changed or moved");
    }
    throw new StoreError("unavailable", "the bucket keys of the tenant change all the time");
  }

  /** null: the bucket key that is known is no longer the newest. */
  async #readOrWrite(tx: Tx, place: KeyPlace): Promise<Bytes | null> {
    const key = dataKeysKey(place);
    const known = await tx.get(key);
    if (known !== undefined) return known;
    const made = this.fresh(place);
    if (made === null || !(await isNewestBucket(tx, ownerOf(place), made.bucket))) return null;
    tx.set(key, made.row);
    return made.row;
  }

  /** Kept when they are sound. */
  async #unwrapped(place: KeyPlace, row: Bytes): Promise<UnwrappedKeys | null> {
    const known = this.known(place);
    if (known !== undefined && sameBytes(known.row, row)) return known;
    const owner = ownerOf(place);
    try {
      let buckets = await this.buckets.load(owner);
      const needed = bucketsOfRow(row);
      if (buckets !== null && !needed.every((id) => buckets?.byId.has(id)))
        buckets = await this.buckets.reload(owner);
      const keys = buckets === null ? null : unwrapDataKeys(buckets.byId, place, row);
      if (buckets === null || keys === null) return null;
      const found = { ...keys, row, until: buckets.until };
      this.remember(place, found);
      return found;
    } catch (error) {
      if (isDamage(error)) return null;
      throw error;
    }
  }
}
