/**
 * The writes of one attempt so far: the top layer of its reads, and at last the content of its commit.
 *
 * There is at most one entry per key, and it is later than every cleared range that holds the key. So the
 * commit may clear all ranges first and then write the entries in any order, with the same result as the
 * calls in their order.
 */

import { type Bytes, type KeyRange, StoreError } from "../store.ts";
import { keyText } from "./keys.ts";

/**
 * A write whose result depends on the stored value without reading it into the transaction, so two of them
 * never conflict. The arithmetic is FoundationDB's (ADD and BYTE_MAX), so that all engines end with the same
 * bytes.
 */
export type Atomic =
  | { readonly kind: "add_i64"; readonly delta: bigint }
  | { readonly kind: "byte_max"; readonly value: Bytes };

export type OwnWrite =
  | { readonly kind: "value"; readonly value: Bytes | undefined } // undefined: cleared
  | { readonly kind: "atomic"; readonly atomics: readonly Atomic[] }
  | { readonly kind: "stamped"; readonly prefix: Bytes; readonly suffix: Bytes };

export interface StampedKeyWrite {
  readonly prefix: Bytes;
  readonly suffix: Bytes;
  readonly order: number;
  readonly value: Bytes;
}

interface Cleared {
  readonly range: KeyRange;
  readonly begin: string;
  readonly end: string;
}

export class Overlay {
  /** Own writes by {@link keyText}. */
  readonly writes = new Map<string, OwnWrite>();
  readonly stampedKeys: StampedKeyWrite[] = [];
  readonly #cleared: Cleared[] = [];
  #sorted: string[] | undefined;

  get empty(): boolean {
    return this.writes.size === 0 && this.stampedKeys.length === 0 && this.#cleared.length === 0;
  }

  get clearedRanges(): KeyRange[] {
    return this.#cleared.map((cleared) => cleared.range);
  }

  set(key: Bytes, value: Bytes | undefined): void {
    this.#put(keyText(key), { kind: "value", value });
  }

  clearRange(range: KeyRange): void {
    const begin = keyText(range.begin);
    const end = keyText(range.end);
    if (begin >= end) return;
    for (const text of this.writes.keys()) if (begin <= text && text < end) this.writes.delete(text);
    this.#sorted = undefined;
    this.#cleared.push({ range, begin, end });
  }

  atomic(key: Bytes, atomic: Atomic): void {
    const text = keyText(key);
    const own = this.writes.get(text);
    if (own?.kind === "stamped") {
      throw new StoreError("unreadable", "the value carries this transaction's own stamp");
    }
    if (own?.kind === "value" || this.#isCleared(text)) {
      const before = own?.kind === "value" ? own.value : undefined;
      this.#put(text, { kind: "value", value: applyAtomic(before, atomic) });
    } else {
      this.#put(text, { kind: "atomic", atomics: own === undefined ? [atomic] : [...own.atomics, atomic] });
    }
  }

  setStampedValue(key: Bytes, prefix: Bytes, suffix: Bytes): void {
    this.#put(keyText(key), { kind: "stamped", prefix, suffix });
  }

  setStampedKey(write: StampedKeyWrite): void {
    this.stampedKeys.push(write);
  }

  /** The own write at a key, if any. */
  at(text: string): OwnWrite | "cleared" | undefined {
    return this.writes.get(text) ?? (this.#isCleared(text) ? "cleared" : undefined);
  }

  /** The keys of `writes` with `begin` ≤ key < `end`, ascending. */
  keysIn(begin: string, end: string): string[] {
    if (this.writes.size === 0) return [];
    this.#sorted ??= [...this.writes.keys()].sort((a, b) => (a < b ? -1 : 1));
    return this.#sorted.filter((text) => begin <= text && text < end);
  }

  #isCleared(text: string): boolean {
    return this.#cleared.some(({ begin, end }) => begin <= text && text < end);
  }

  #put(text: string, write: OwnWrite): void {
    if (!this.writes.has(text)) this.#sorted = undefined;
    this.writes.set(text, write);
  }
}

/** The value that a read sees at a key with an own write, from the stored value. */
export function seenThrough(
  own: OwnWrite | "cleared" | undefined,
  stored: Bytes | undefined,
): Bytes | undefined {
  if (own === undefined) return stored;
  if (own === "cleared") return undefined;
  if (own.kind === "value") return own.value;
  if (own.kind === "atomic") return own.atomics.reduce<Bytes | undefined>(applyAtomic, stored);
  throw new StoreError("unreadable", "the value carries this transaction's own stamp");
}

const I64_BYTES = 8;

/**
 * Adds little-endian integers. A stored value of another length is first cut or filled with zeros to 8 bytes.
 */
export function addI64(stored: Bytes | undefined, delta: bigint): Buffer {
  const sum = Buffer.alloc(I64_BYTES);
  if (stored !== undefined) sum.set(stored.subarray(0, I64_BYTES));
  sum.writeBigInt64LE(BigInt.asIntN(64, sum.readBigInt64LE() + delta));
  return sum;
}

export function applyAtomic(stored: Bytes | undefined, atomic: Atomic): Bytes {
  if (atomic.kind === "add_i64") return addI64(stored, atomic.delta);
  return stored !== undefined && Buffer.compare(stored, atomic.value) >= 0 ? stored : atomic.value;
}
