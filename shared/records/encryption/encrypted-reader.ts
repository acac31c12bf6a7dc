/** Reads of an encrypted store: rows are decrypted, and others pass. */
import type { DataKey } from "../../integrity/encryption/encrypted-bytes.ts";
import type { Bytes, KeyRange, KeyValue, RangePage, Reader } from "../../store/store.ts";
import { findConversion } from "./encryption-state.ts";
import type { KeyRing, UnwrappedKeys } from "./keys/key-ring.ts";
import type { KeyPlace } from "./keys/place.ts";
import type { Layout, Placed } from "./layout.ts";
import type { RecentValues } from "./recent-values.ts";
import { isSealedWith, keyIdText, openValue, sealedWith, UNREADABLE } from "./sealed-value.ts";

export interface Encryption {
  readonly ring: KeyRing;
  readonly layout: Layout;
  readonly recent: RecentValues;
  /** True once the record said that every row is encrypted; it stays so. */
  isConverted: boolean;
}

/** What a transaction adds to its reads. */
export interface OfTransaction {
  /** Reads of wrapped keys are no reason for a conflict. */
  readonly keyReader: Reader;
  /** Keys that only the transaction has. */
  readonly ownKeys: (place: KeyPlace) => UnwrappedKeys | undefined;
  /** Called with the key of each row that is decrypted. */
  readonly onOpened?: (place: KeyPlace, key: DataKey) => void;
}

interface SealedRow {
  readonly at: Placed;
  /** Of a key that is not the newest one known. null: the row is plain, unless it has a key. */
  readonly id: string | null;
  readonly key: DataKey | undefined;
}

/** Returns the value with this index, decrypted. */
type Opener = (i: number) => Bytes | undefined;

class SealedKeyValue implements KeyValue {
  readonly key: Bytes;
  readonly #i: number;
  readonly #open: Opener;
  #value: Bytes | undefined;

  constructor(key: Bytes, i: number, open: Opener) {
    this.key = key;
    this.#i = i;
    this.#open = open;
  }

  get value(): Bytes {
    this.#value ??= this.#open(this.#i)!;
    return this.#value;
  }
}

export class EncryptedReader implements Reader {
  readonly #reader: Reader;
  readonly #encryption: Encryption;
  readonly #own: OfTransaction | null;

  constructor(reader: Reader, encryption: Encryption, own: OfTransaction | null = null) {
    this.#reader = reader;
    this.#encryption = encryption;
    this.#own = own;
  }

  get ring(): KeyRing {
    return this.#encryption.ring;
  }

  get(key: Bytes): Promise<Bytes | undefined> {
    return this.getAt(key, this.#encryption.layout(key));
  }

  getMany(keys: readonly Bytes[]): Promise<(Bytes | undefined)[]> {
    return this.getManyAt(keys, keys.map(this.#encryption.layout));
  }

  /** For a caller that has looked the key up in the layout, as it does for each read of a transaction. */
  getAt(key: Bytes, at: Placed | null): Promise<Bytes | undefined> {
    return at === null ? this.#reader.get(key) : this.#getSealed(key, at);
  }

  /** As {@link getAt}. */
  async getManyAt(
    keys: readonly Bytes[],
    places: readonly (Placed | null)[],
  ): Promise<(Bytes | undefined)[]> {
    const values = await this.#reader.getMany(keys);
    const opened: (Bytes | undefined)[] = new Array(values.length);
    for (let i = 0; i < values.length; i += 1) {
      const [value, at] = [values[i], places[i] ?? null];
      const plain = value === undefined || at === null ? value : this.#openWithNewest(value, at);
      if (plain === null) return this.#openAll(values, places);
      opened[i] = plain;
    }
    return opened;
  }

  /** Many readers of a range need only its keys, so each value is decrypted when it is asked for. */
  async getRange(range: KeyRange, options: { limit: number; reverse?: boolean }): Promise<RangePage> {
    const { rows, more } = await this.#reader.getRange(range, options);
    const places = rows.map(({ key }) => this.#encryption.layout(key));
    if (places.every((at) => at === null)) return { rows, more };
    const open = await this.#opener(
      rows.map(({ value }) => value),
      places,
    );
    return {
      rows: rows.map((row, i) => (places[i] === null ? row : new SealedKeyValue(row.key, i, open))),
      more,
    };
  }

  /** With the place of each row, so that a transaction need not look it up again. */
  async getPlacedRange(
    range: KeyRange,
    options: { limit: number; reverse?: boolean },
  ): Promise<{ readonly page: RangePage; readonly places: readonly (Placed | null)[] }> {
    const { rows, more } = await this.#reader.getRange(range, options);
    const places = rows.map(({ key }) => this.#encryption.layout(key));
    const values = await this.#openAll(
      rows.map(({ value }) => value),
      places,
    );
    return { page: { rows: rows.map(({ key }, i) => ({ key, value: values[i]! })), more }, places };
  }

  async #getSealed(key: Bytes, at: Placed): Promise<Bytes | undefined> {
    const value = await this.#reader.get(key);
    if (value === undefined) return value;
    return this.#openWithNewest(value, at) ?? (await this.#openAll([value], [at]))[0];
  }

  /** Most rows are sealed with the newest key of their place, and it is known. null: this one is not, or it is not known yet. */
  #openWithNewest(value: Bytes, at: Placed): Bytes | null {
    const key = this.#newestKey(at.place);
    return key !== undefined && isSealedWith(key, value) ? this.#opened(key, value, at) : null;
  }

  async #openAll(
    values: readonly (Bytes | undefined)[],
    places: readonly (Placed | null)[],
  ): Promise<(Bytes | undefined)[]> {
    const open = await this.#opener(values, places);
    return values.map((_, i) => open(i));
  }

  /** Loads the keys of all values. */
  async #opener(values: readonly (Bytes | undefined)[], places: readonly (Placed | null)[]): Promise<Opener> {
    const sealed: (SealedRow | null)[] = new Array(values.length).fill(null);
    const missing = new Map<string, KeyPlace>();
    for (let i = 0; i < values.length; i += 1) {
      const [value, at] = [values[i], places[i] ?? null];
      if (value === undefined || at === null) continue;
      const one = this.#sealedRow(value, at);
      sealed[i] = one;
      if (one.id !== null && one.key === undefined) missing.set(at.place.id, at.place);
    }
    // What was known above may be forgotten by now, so only the rest is looked up below.
    const fetched =
      missing.size === 0 ? null : await this.#encryption.ring.fetch(this.#keyReader, [...missing.values()]);
    const hasPlain = sealed.some((one) => one?.id === null && one.key === undefined);
    const mayBePlain = hasPlain && !(await this.#isConverted());
    return (i) => {
      const value = values[i];
      const one = sealed[i] ?? null;
      if (one === null || value === undefined) return value;
      if (one.key !== undefined) return this.#opened(one.key, value, one.at);
      if (one.id === null) return mayBePlain ? value : UNREADABLE;
      const key = fetched?.get(one.at.place.id)?.byId.get(one.id);
      return key === undefined ? UNREADABLE : this.#opened(key, value, one.at);
    };
  }

  /** The reader of what cannot be decrypted finds a record of no form, thus damaged. */
  #opened(key: DataKey, value: Bytes, { place, address }: Placed): Bytes {
    const plain = this.#encryption.recent.find(value, address) ?? openValue(key, value, address);
    if (plain === null) return UNREADABLE;
    this.#own?.onOpened?.(place, key);
    return plain;
  }

  get #keyReader(): Reader {
    return this.#own?.keyReader ?? this.#reader;
  }

  #sealedRow(value: Bytes, at: Placed): SealedRow {
    const newest = this.#newestKey(at.place);
    if (newest !== undefined && isSealedWith(newest, value)) return { at, id: null, key: newest };
    const id = sealedWith(value);
    if (id === null) return { at, id: null, key: undefined };
    const text = keyIdText(id);
    return { at, id: text, key: this.#knownKey(at.place, text) };
  }

  #newestKey(place: KeyPlace): DataKey | undefined {
    return (this.#own?.ownKeys(place) ?? this.#encryption.ring.known(place))?.newest;
  }

  #knownKey(place: KeyPlace, id: string): DataKey | undefined {
    return this.#own?.ownKeys(place)?.byId.get(id) ?? this.#encryption.ring.known(place)?.byId.get(id);
  }

  /** Plain rows are older than the encryption of the store. When all are encrypted, a plain one was put there by another program. */
  async #isConverted(): Promise<boolean> {
    const encryption = this.#encryption;
    if (encryption.isConverted) return true;
    const state = await findConversion(this.#keyReader, encryption.ring);
    // A record that cannot be read now may be readable later, and say that rows are still plain.
    if (state === "complete") encryption.isConverted = true;
    return state !== "converting";
  }
}
