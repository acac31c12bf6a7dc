/**
 * Commit stamps of the embedded engines, and the ranges that a transaction cannot read because its own stamp
 * is not known yet.
 *
 * A stamp is the commit counter, 8 bytes big-endian, then two zero bytes: FoundationDB's shape (version, then
 * position in the batch), so keys have the same length on every engine.
 */
import { ORDER_BYTES } from "../limits.ts";
import { type Bytes, type KeyRange, STAMP_BYTES, StoreError } from "../store.ts";
import { keyAfter, keyText } from "./keys.ts";

export function commitStamp(sequence: bigint): Buffer {
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

/**
 * The ranges in which the stamped keys of one attempt may land. A read there would have to guess the stamp,
 * so it is refused. Reads of stamped values are refused where own writes are looked up.
 */
export class StampedRanges {
  readonly #ranges = new Map<string, { begin: string; end: string }>();

  addKeysUnder(prefix: Bytes): void {
    const text = keyText(prefix);
    // No stamp begins with 0xFF: that would be a counter of 2^63 and more.
    this.#ranges.set(text, { begin: text + "\0".repeat(STAMP_BYTES), end: `${text}\xff` });
  }

  checkKey(key: Bytes): void {
    if (this.#ranges.size > 0) this.checkRange({ begin: key, end: keyAfter(key) });
  }

  checkRange(range: KeyRange): void {
    if (this.#ranges.size === 0) return;
    const begin = keyText(range.begin);
    const end = keyText(range.end);
    for (const stamped of this.#ranges.values()) {
      if (stamped.begin < end && begin < stamped.end) {
        throw new StoreError("unreadable", "the range may hold keys that this transaction stamps");
      }
    }
  }
}
