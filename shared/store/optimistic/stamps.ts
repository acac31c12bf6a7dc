/**
 * Commit stamps of the embedded engines, and what a transaction may no longer read because its own stamp is not known yet.
 *
 * A stamp is the commit counter, 8 bytes big-endian, then two zero bytes: FoundationDB's shape (version, then position in
 * the batch), so keys have the same length on every engine.
 */
import { ORDER_BYTES } from "../limits.ts";
import { type Bytes, type KeyRange, STAMP_BYTES, StoreError } from "../store.ts";
import { keyText } from "./order.ts";

export function stampOf(sequence: bigint): Buffer {
  const stamp = Buffer.alloc(STAMP_BYTES);
  stamp.writeBigUInt64BE(sequence);
  return stamp;
}

/** `prefix ‖ stamp ‖ order ‖ suffix`. */
export function stampedKey(prefix: Bytes, stamp: Bytes, order: number, suffix: Bytes): Buffer {
  const counter = Buffer.alloc(ORDER_BYTES);
  counter.writeUInt16BE(order);
  return Buffer.concat([prefix, stamp, counter, suffix]);
}

const unreadable = (message: string): StoreError => new StoreError("unreadable", message);

/** Where the stamped writes of one attempt may land. A read there would have to guess the stamp: it is refused instead. */
export class StampedPlaces {
  readonly #ranges = new Map<string, { begin: string; end: string }>();
  readonly #values = new Set<string>();

  addKeysUnder(prefix: Bytes): void {
    const text = keyText(prefix);
    if (this.#ranges.has(text)) return;
    // No stamp begins with 0xFF: that would be a counter of 2^63 and more.
    this.#ranges.set(text, { begin: text + "\0".repeat(STAMP_BYTES), end: `${text}\xff` });
  }

  addValueAt(key: Bytes): void {
    this.#values.add(keyText(key));
  }

  checkKey(key: Bytes): void {
    if (this.#values.size === 0 && this.#ranges.size === 0) return;
    const text = keyText(key);
    if (this.#values.has(text)) throw unreadable("the value carries this transaction's own stamp");
    for (const range of this.#ranges.values()) {
      if (range.begin <= text && text < range.end) {
        throw unreadable("the key may be one that this transaction stamps");
      }
    }
  }

  checkRange(range: KeyRange): void {
    if (this.#values.size === 0 && this.#ranges.size === 0) return;
    const begin = keyText(range.begin);
    const end = keyText(range.end);
    for (const key of this.#values) {
      if (begin <= key && key < end)
        throw unreadable("the range holds a value with this transaction's own stamp");
    }
    for (const stamped of this.#ranges.values()) {
      if (stamped.begin < end && begin < stamped.end) {
        throw unreadable("the range may hold keys that this transaction stamps");
      }
    }
  }
}
