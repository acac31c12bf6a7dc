/**
 * One attempt of a transaction of an encrypted store. Writes are synchronous, so a row whose key is not known yet is encrypted with a provisional key. Such an
 * attempt runs to its end, to collect all that it misses, and does not commit. The store then loads the keys and runs the body again.
 *
 * No row may be encrypted with a key that is gone: shredding destroys the keys of a task in the transaction that removes its last rows under them. So a
 * transaction that has read one of these rows conflicts with the shredding. Any other that writes rows of the task conflicts with a change of the keys. The key
 * of a new task is written with its first rows, so a kill leaves neither or both.
 */
import type { DataKey } from "../../integrity/encryption/encrypted-bytes.ts";
import { checkKey, checkValue, ORDER_BYTES } from "../../store/limits.ts";
import { sameBytes } from "../../store/same-bytes.ts";
import {
  type Bytes,
  type KeyRange,
  type RangePage,
  type Reader,
  STAMP_BYTES,
  StoreError,
  type Tx,
} from "../../store/store.ts";
import { UnreadableValue } from "../kv/codec.ts";
import { systemKeys } from "../kv/keyspace.ts";
import { EncryptedReader, type Encryption } from "./encrypted-reader.ts";
import { dataKeysKey, newDataKey } from "./keys/key-record.ts";
import { isNewestBucket, type KeyRing, type UnwrappedKeys } from "./keys/key-ring.ts";
import { type KeyPlace, ownerOf } from "./keys/place.ts";
import type { Placed } from "./layout.ts";
import {
  keyIdText,
  SEALED_BYTES_MORE,
  SEALED_STAMPED_BYTES_MORE,
  sealStamped,
  sealValue,
} from "./sealed-value.ts";

const NOTHING = new Uint8Array(0);

/** The attempt needs keys that are not known. It did not commit. */
export class KeysMissing extends Error {
  constructor() {
    super("keys of the encryption must be loaded first");
    this.name = "KeysMissing";
  }
}

/** Never stored: {@link EncryptedTx.finish} prevents the commit of every attempt that has used it. */
const PROVISIONAL = provisionalKeys();

function provisionalKeys(): UnwrappedKeys {
  const { key } = newDataKey();
  return { newest: key, byId: new Map([[keyIdText(key.id), key]]), row: NOTHING, until: 0 };
}

export class EncryptedTx implements Tx {
  readonly snapshot: Reader;
  /** The places whose keys must be loaded before the next attempt. */
  readonly missing = new Map<string, KeyPlace>();
  readonly #tx: Tx;
  readonly #encryption: Encryption;
  readonly #reader: EncryptedReader;
  /** The keys with which this attempt writes. `none`: the task has none yet. `damaged`: they cannot be unwrapped. */
  readonly #keys = new Map<string, UnwrappedKeys | "none" | "damaged">();
  readonly #fresh = new Map<string, { readonly place: KeyPlace; readonly keys: UnwrappedKeys }>();
  /** By the place's id: the key of a row that the attempt has read, and whose change its commit conflicts with. */
  readonly #readWith = new Map<string, DataKey>();
  /** The tasks whose keys were read in the snapshot, which is no reason for a conflict. */
  readonly #unguarded = new Set<string>();
  /** The tasks with whose keys it has written. */
  readonly #written = new Set<string>();
  /** Compare the keys of tasks with their rows. */
  readonly #checks: Promise<void>[] = [];
  /** Bytes that the encryption adds to the size of the transaction. */
  #ownBytes = 0;

  constructor(tx: Tx, encryption: Encryption) {
    this.#tx = tx;
    this.#encryption = encryption;
    const own = { keyReader: tx.snapshot, ownKeys: (place: KeyPlace) => this.#ownKeys(place) };
    const onOpened = ({ id }: KeyPlace, key: DataKey) => void this.#readWith.set(id, key);
    this.#reader = new EncryptedReader(tx, encryption, { ...own, onOpened });
    this.snapshot = new EncryptedReader(tx.snapshot, encryption, own);
  }

  get ring(): KeyRing {
    return this.#encryption.ring;
  }

  get attempt(): number {
    return this.#tx.attempt;
  }

  /** Reads the keys of those places that are tasks, as this attempt sees them. */
  async begin(places: Iterable<KeyPlace>): Promise<void> {
    const tasks = [...places].filter(({ task }) => task !== null);
    if (tasks.length === 0) return;
    const found = await this.#encryption.ring.fetch(this.#tx.snapshot, tasks);
    for (const { id } of tasks) {
      const keys = found.get(id);
      this.#keys.set(id, keys === null ? "damaged" : (keys ?? "none"));
      this.#unguarded.add(id);
    }
  }

  /** To be awaited after the body, before the commit. Throws {@link KeysMissing}. */
  async finish(): Promise<void> {
    await Promise.all(this.#checks);
    if (this.missing.size > 0) throw new KeysMissing();
  }

  /** The new keys are in the store. */
  committed(): void {
    for (const { place, keys } of this.#fresh.values()) this.#encryption.ring.remember(place, keys);
  }

  get(key: Bytes): Promise<Bytes | undefined> {
    const at = this.#encryption.layout(key);
    const cold = this.#coldTasks([at]);
    return cold === null
      ? this.#reader.getAt(key, at)
      : this.#load(cold).then(() => this.#reader.getAt(key, at));
  }

  getMany(keys: readonly Bytes[]): Promise<(Bytes | undefined)[]> {
    const places = keys.map(this.#encryption.layout);
    const cold = this.#coldTasks(places);
    return cold === null
      ? this.#reader.getManyAt(keys, places)
      : this.#load(cold).then(() => this.#reader.getManyAt(keys, places));
  }

  async getRange(range: KeyRange, options: { limit: number; reverse?: boolean }): Promise<RangePage> {
    const { page, places } = await this.#reader.getPlacedRange(range, options);
    // The keys of encrypted rows are known by now, those of plain rows are not.
    const cold = this.#coldTasks(places);
    if (cold !== null) await this.#load(cold);
    return page;
  }

  set(key: Bytes, value: Bytes): void {
    checkKey(key);
    checkValue(value);
    const at = this.#encryption.layout(key);
    if (at === null) this.#tx.set(key, value);
    else this.#tx.set(key, this.#seal(value, at), SEALED_BYTES_MORE);
  }

  clear(key: Bytes): void {
    this.#tx.clear(key);
  }

  /** Destroys the keys of a task. Rows that it writes from now on have a new key. */
  destroyKeys(place: KeyPlace): void {
    if (this.#written.has(place.id))
      throw new StoreError("invalid", "the transaction wrote rows with the keys that it destroys");
    this.#tx.clear(dataKeysKey(place));
    this.#guard(place);
    this.#keys.set(place.id, "none");
  }

  clearRange(range: KeyRange): void {
    this.#tx.clearRange(range);
  }

  addI64(key: Bytes, delta: bigint): void {
    this.#tx.addI64(key, delta);
  }

  byteMax(key: Bytes, value: Bytes): void {
    this.#tx.byteMax(key, value);
  }

  setStampedKey(prefix: Bytes, suffix: Bytes, value: Bytes): void {
    checkKey(prefix);
    checkValue(value);
    const stamp = Buffer.alloc(STAMP_BYTES + ORDER_BYTES);
    const at = this.#encryption.layout(Buffer.concat([prefix, stamp, suffix]));
    if (at === null) {
      this.#tx.setStampedKey(prefix, suffix, value);
    } else {
      this.#tx.setStampedKey(prefix, suffix, this.#seal(value, at), SEALED_BYTES_MORE);
    }
  }

  setStampedValue(key: Bytes, prefix: Bytes, suffix: Bytes): void {
    checkKey(key);
    const at = this.#encryption.layout(key);
    if (at === null) {
      this.#tx.setStampedValue(key, prefix, suffix);
    } else {
      const sealed = sealStamped(this.#keyOf(at).newest, prefix, suffix, at.address);
      this.#tx.setStampedValue(key, sealed, NOTHING, SEALED_STAMPED_BYTES_MORE);
    }
  }

  addReadConflict(range: KeyRange): void {
    this.#tx.addReadConflict(range);
  }

  approximateBytes(): number {
    return this.#tx.approximateBytes() - this.#ownBytes;
  }

  #seal(value: Bytes, at: Placed): Bytes {
    const key = this.#keyOf(at).newest;
    const sealed = sealValue(key, value, at.address);
    if (key !== PROVISIONAL.newest) this.#encryption.recent.add(sealed, value, at.address);
    return sealed;
  }

  /** A task of which a row is read is about to be written, so keys that are not known are loaded here. */
  #coldTasks(places: readonly (Placed | null)[]): ReadonlyMap<string, KeyPlace> | null {
    const { ring } = this.#encryption;
    let cold: Map<string, KeyPlace> | null = null;
    for (const at of places) {
      const place = at?.place;
      if (place === undefined || place.task === null || this.#keys.has(place.id)) continue;
      if (ring.known(place) !== undefined) continue;
      cold ??= new Map();
      cold.set(place.id, place);
    }
    return cold;
  }

  async #load(cold: ReadonlyMap<string, KeyPlace>): Promise<void> {
    const { buckets } = this.#encryption.ring;
    await Promise.all([...cold.values()].map((place) => buckets.load(ownerOf(place))));
    await this.begin(cold.values());
  }

  #ownKeys({ id }: KeyPlace): UnwrappedKeys | undefined {
    return this.#fresh.get(id)?.keys ?? (this.missing.has(id) ? PROVISIONAL : undefined);
  }

  #keyOf({ place }: Placed): UnwrappedKeys {
    if (place.task !== null) this.#written.add(place.id);
    const found = this.#fresh.get(place.id)?.keys ?? this.#keys.get(place.id);
    if (found === "damaged") throw new UnreadableValue("the keys of the task were changed or moved");
    if (found === "none") return this.#make(place);
    if (found !== undefined) {
      if (this.#unguarded.delete(place.id) && !this.#hasReadWith(place, found)) this.#guard(place);
      return found;
    }
    const known = this.#encryption.ring.known(place);
    if (known === undefined) return this.#miss(place);
    if (place.task !== null && !this.#hasReadWith(place, known)) this.#check(place, known);
    this.#keys.set(place.id, known);
    return known;
  }

  #hasReadWith({ id }: KeyPlace, { newest }: UnwrappedKeys): boolean {
    const key = this.#readWith.get(id);
    return key !== undefined && (key === newest || sameBytes(key.id, newest.id));
  }

  #make(place: KeyPlace): UnwrappedKeys {
    const made = this.#encryption.ring.fresh(place);
    if (made === null) return this.#miss(place);
    const key = dataKeysKey(place);
    this.#guard(place);
    this.#tx.set(key, made.row);
    this.#ownBytes += key.length + made.row.length;
    const owner = ownerOf(place);
    const { begin, end } = systemKeys.bucketKeysOf(owner.tenant);
    this.#ownBytes += begin.length + end.length;
    this.#checkLater(place, async () => {
      const isNewest = await isNewestBucket(this.#tx, owner, made.bucket);
      if (!isNewest) this.#encryption.ring.buckets.forget(owner);
      return isNewest;
    });
    this.#fresh.set(place.id, { place, keys: made.keys });
    return made.keys;
  }

  /** The keys that other transactions used are still those of the task, in the snapshot and at the commit. */
  #check(place: KeyPlace, known: UnwrappedKeys): void {
    const key = dataKeysKey(place);
    this.#ownBytes += key.length;
    this.#checkLater(place, async () => {
      const row = await this.#tx.get(key);
      const isSame = sameBytes(row, known.row);
      if (!isSame) this.#encryption.ring.forget(place);
      return isSame;
    });
  }

  /** Begins now, so that the wait at the end is short. */
  #checkLater(place: KeyPlace, isSound: () => Promise<boolean>): void {
    const check = isSound().then((sound) => {
      if (!sound) this.missing.set(place.id, place);
    });
    // It may fail before `finish` waits for it, or after the body has failed.
    check.catch(() => {});
    this.#checks.push(check);
  }

  #guard(place: KeyPlace): void {
    const begin = dataKeysKey(place);
    const range = { begin, end: Buffer.concat([begin, Buffer.of(0)]) };
    this.#tx.addReadConflict(range);
    this.#ownBytes += range.begin.length + range.end.length;
  }

  #miss(place: KeyPlace): UnwrappedKeys {
    this.missing.set(place.id, place);
    return PROVISIONAL;
  }
}
