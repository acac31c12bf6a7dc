/** Reads of an encrypted store: rows are decrypted, and others pass. */
import type { DataKey } from "../../integrity/encryption/encrypted-bytes.ts";
import type { Bytes, KeyRange, RangePage, Reader } from "../../store/store.ts";
import { findConversion } from "./encryption-state.ts";
import type { KeyRing, UnwrappedKeys } from "./keys/key-ring.ts";
import type { KeyPlace } from "./keys/place.ts";
import type { Layout, Placed } from "./layout.ts";
import { keyIdText, openValue, sealedWith, UNREADABLE } from "./sealed-value.ts";

export interface Encryption {
  readonly ring: KeyRing;
  readonly layout: Layout;
  /** True once the record said that every row is encrypted; it stays so. */
  isConverted: boolean;
}

/** Keys that only the transaction has. */
export type OwnKeys = (place: KeyPlace) => UnwrappedKeys | undefined;

interface SealedRow {
  readonly at: Placed;
  /** null: the row is plain. */
  readonly id: string | null;
  key: DataKey | undefined;
}

interface Row {
  readonly key: Bytes;
  readonly value: Bytes | undefined;
}

export class EncryptedReader implements Reader {
  readonly #reader: Reader;
  /** Reads of wrapped keys are no reason for a conflict. */
  readonly #keyReader: Reader;
  readonly #encryption: Encryption;
  readonly #ownKeys: OwnKeys;

  constructor(
    reader: Reader,
    encryption: Encryption,
    { keyReader = reader, ownKeys = () => undefined }: { keyReader?: Reader; ownKeys?: OwnKeys } = {},
  ) {
    this.#reader = reader;
    this.#keyReader = keyReader;
    this.#encryption = encryption;
    this.#ownKeys = ownKeys;
  }

  get ring(): KeyRing {
    return this.#encryption.ring;
  }

  async get(key: Bytes): Promise<Bytes | undefined> {
    const value = await this.#reader.get(key);
    const one = this.#sealedAt({ key, value });
    if (one === null || value === undefined) return value;
    // Most reads are of one row whose key is known.
    const known = one.id === null ? undefined : this.#knownKey(one.at.place, one.id);
    if (known !== undefined) return openValue(known, value, one.at.address) ?? UNREADABLE;
    const [opened] = await this.#open([{ key, value }]);
    return opened;
  }

  async getMany(keys: readonly Bytes[]): Promise<(Bytes | undefined)[]> {
    const values = await this.#reader.getMany(keys);
    return this.#open(values.map((value, i) => ({ key: keys[i]!, value })));
  }

  async getRange(range: KeyRange, options: { limit: number; reverse?: boolean }): Promise<RangePage> {
    const { rows, more } = await this.#reader.getRange(range, options);
    const values = await this.#open(rows);
    return { rows: rows.map(({ key }, i) => ({ key, value: values[i]! })), more };
  }

  async #open(rows: readonly Row[]): Promise<(Bytes | undefined)[]> {
    const sealed = rows.map((row) => this.#sealedAt(row));
    const missing = new Map<string, KeyPlace>();
    for (const one of sealed) {
      if (one === null || one.id === null) continue;
      one.key = this.#knownKey(one.at.place, one.id);
      if (one.key === undefined) missing.set(one.at.place.id, one.at.place);
    }
    // What was known above may be forgotten by now, so only the rest is looked up below.
    const fetched =
      missing.size === 0 ? null : await this.#encryption.ring.fetch(this.#keyReader, [...missing.values()]);
    const hasPlain = sealed.some((one) => one?.id === null);
    const mayBePlain = hasPlain && !(await this.#isConverted());
    return sealed.map((one, i) => {
      const { value } = rows[i]!;
      if (one === null || value === undefined) return value;
      if (one.id === null) return mayBePlain ? value : UNREADABLE;
      const key = one.key ?? fetched?.get(one.at.place.id)?.byId.get(one.id);
      // Its reader finds a record of no form, thus damaged.
      return (key === undefined ? null : openValue(key, value, one.at.address)) ?? UNREADABLE;
    });
  }

  #sealedAt({ key, value }: Row): SealedRow | null {
    const at = value === undefined ? null : this.#encryption.layout(key);
    if (at === null || value === undefined) return null;
    const id = sealedWith(value);
    return { at, id: id === null ? null : keyIdText(id), key: undefined };
  }

  #knownKey(place: KeyPlace, id: string): DataKey | undefined {
    return this.#ownKeys(place)?.byId.get(id) ?? this.#encryption.ring.known(place)?.byId.get(id);
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
