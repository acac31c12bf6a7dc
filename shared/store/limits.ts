/**
 * The limits of every driver, checked before its engine is called, and the size of a transaction, counted in
 * the same way for all engines. The limits of the engines differ in number, in time (at the call or at the
 * commit) and in unit: code that runs on one engine would fail on another. Ours are lower than all of theirs,
 * so no other limit is ever met.
 *
 * A driver keeps one {@link TransactionMeter} per attempt and first calls its method with the name of the
 * operation. The method throws `invalid` or, above a limit, `too_large`. A refused operation counts nothing.
 */
import { type Bytes, type KeyRange, STAMP_BYTES, STORE_LIMITS, StoreError } from "./store.ts";

/** Keys from here on belong to the store itself; the tuple encoding never begins with 0xFE or 0xFF. */
const RESERVED_FROM = 0xfe;

/** The keys that callers may write; `end` is the greatest end of a range. */
export const KEY_SPACE: KeyRange = {
  begin: Uint8Array.of(0x00),
  end: Uint8Array.of(RESERVED_FROM),
};

/** The bytes of the counter after the stamp in a stamped key. */
export const ORDER_BYTES = 2;
const ORDER_MAX = 0xffff;
const I64_BYTES = 8;

const invalid = (message: string, details: Record<string, unknown> = {}): StoreError =>
  new StoreError("invalid", message, { details });

const tooLarge = (message: string, actual: number, max: number): StoreError =>
  new StoreError("too_large", message, { details: { actual, max } });

function checkBytes(bytes: Bytes): void {
  // A native binding encodes a string by its own rules, or ends the process.
  if (!(bytes instanceof Uint8Array)) throw invalid("not a byte array", { type: typeof bytes });
}

/** 1 to `key_bytes_max` bytes, outside the reserved space. */
export function checkKey(key: Bytes): void {
  checkBytes(key);
  if (key.length === 0) throw invalid("key is empty");
  if (key.length > STORE_LIMITS.key_bytes_max) {
    throw tooLarge("key is too long", key.length, STORE_LIMITS.key_bytes_max);
  }
  if (key[0]! >= RESERVED_FROM) throw invalid("key is in the store's own space", { first_byte: key[0] });
}

/** At most `value_bytes_max` bytes without those of the envelope; empty is a value. Returns their number. */
export function checkValue(value: Bytes, envelope = 0): number {
  checkBytes(value);
  const bytes = value.length - envelope;
  if (bytes > STORE_LIMITS.value_bytes_max) {
    throw tooLarge("value is too long", bytes, STORE_LIMITS.value_bytes_max);
  }
  return bytes;
}

/**
 * `begin` ≤ `end` (equal: the empty range), inside {@link KEY_SPACE}. A bound may be one byte longer than a
 * key, so that `lastKey ‖ 0x00` continues a page.
 */
export function checkRange(range: KeyRange): void {
  for (const bound of [range.begin, range.end]) {
    checkBytes(bound);
    if (bound.length === 0) throw invalid("range bound is empty");
    if (bound.length > STORE_LIMITS.key_bytes_max + 1) {
      throw tooLarge("range bound is too long", bound.length, STORE_LIMITS.key_bytes_max + 1);
    }
  }
  if (Buffer.compare(range.begin, range.end) > 0) throw invalid("range begins after its end");
  if (Buffer.compare(range.end, KEY_SPACE.end) > 0) {
    throw invalid("range reaches into the store's own space", { first_byte: range.end[0] });
  }
}

/** The rows of one page: 1 to `range_rows_max`. */
export function checkLimit(limit: number): void {
  if (!Number.isInteger(limit) || limit < 1) throw invalid("row limit is not a positive integer", { limit });
  if (limit > STORE_LIMITS.range_rows_max) {
    throw tooLarge("row limit is too high", limit, STORE_LIMITS.range_rows_max);
  }
}

/**
 * Counts the content of one attempt: key and value of each write, both ends of each cleared range, and each
 * read conflict (the key of a get, both ends of a range). Every call counts, even when it repeats an earlier
 * one. Snapshot reads are checked but count nothing.
 */
export class TransactionMeter {
  #bytes = 0;
  #order = 0;

  get bytes(): number {
    return this.#bytes;
  }

  get(key: Bytes): void {
    checkKey(key);
    this.#add(key.length);
  }

  getRange(range: KeyRange, limit: number): void {
    checkRange(range);
    checkLimit(limit);
    this.#add(range.begin.length + range.end.length);
  }

  snapshotGet(key: Bytes): void {
    checkKey(key);
  }

  snapshotGetRange(range: KeyRange, limit: number): void {
    checkRange(range);
    checkLimit(limit);
  }

  addReadConflict(range: KeyRange): void {
    checkRange(range);
    this.#add(range.begin.length + range.end.length);
  }

  set(key: Bytes, value: Bytes, envelope = 0): void {
    checkKey(key);
    this.#add(key.length + checkValue(value, envelope));
  }

  clear(key: Bytes): void {
    checkKey(key);
    this.#add(key.length);
  }

  clearRange(range: KeyRange): void {
    checkRange(range);
    this.#add(range.begin.length + range.end.length);
  }

  addI64(key: Bytes, delta: bigint): void {
    checkKey(key);
    if (typeof delta !== "bigint" || BigInt.asIntN(64, delta) !== delta) {
      throw invalid("delta is not a signed 64-bit integer");
    }
    this.#add(key.length + I64_BYTES);
  }

  byteMax(key: Bytes, value: Bytes): void {
    this.set(key, value);
  }

  /** Returns the `order` of this stamped key; the next call returns the next one. */
  setStampedKey(prefix: Bytes, suffix: Bytes, value: Bytes, envelope = 0): number {
    checkKey(prefix); // with an empty prefix the key could land anywhere, and every read would be unreadable
    checkBytes(suffix);
    const valueBytes = checkValue(value, envelope);
    const keyBytes = prefix.length + STAMP_BYTES + ORDER_BYTES + suffix.length;
    if (keyBytes > STORE_LIMITS.key_bytes_max) {
      throw tooLarge("stamped key is too long", keyBytes, STORE_LIMITS.key_bytes_max);
    }
    if (this.#order > ORDER_MAX) throw tooLarge("too many stamped keys", this.#order + 1, ORDER_MAX + 1);
    this.#add(keyBytes + valueBytes);
    return this.#order++;
  }

  setStampedValue(key: Bytes, prefix: Bytes, suffix: Bytes, envelope = 0): void {
    checkKey(key);
    checkBytes(prefix);
    checkBytes(suffix);
    const valueBytes = prefix.length + STAMP_BYTES + suffix.length - envelope;
    if (valueBytes > STORE_LIMITS.value_bytes_max) {
      throw tooLarge("stamped value is too long", valueBytes, STORE_LIMITS.value_bytes_max);
    }
    this.#add(key.length + valueBytes);
  }

  #add(bytes: number): void {
    const total = this.#bytes + bytes;
    if (total > STORE_LIMITS.transaction_bytes_max) {
      throw tooLarge("transaction is too large", total, STORE_LIMITS.transaction_bytes_max);
    }
    this.#bytes = total;
  }
}
