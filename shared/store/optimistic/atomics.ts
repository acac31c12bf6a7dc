/**
 * Atomic operations: writes whose result depends on the stored value without reading it into the transaction, so two of them
 * never conflict. The arithmetic is FoundationDB's (ADD and BYTE_MAX), so that all engines end with the same bytes.
 */
import type { Bytes } from "../store.ts";

export type Atomic =
  | { readonly kind: "add_i64"; readonly delta: bigint }
  | { readonly kind: "byte_max"; readonly value: Bytes };

const I64_BYTES = 8;

/** Little-endian; a stored value of another length is cut, or filled with zeros, to 8 bytes first. */
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
