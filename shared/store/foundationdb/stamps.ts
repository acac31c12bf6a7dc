/**
 * The operands of FoundationDB's two versionstamp mutations. The engine writes the commit's 10 bytes over the place
 * that the last four bytes (little-endian) point at, and cuts those four off. The result is the layout that every
 * driver of the store writes.
 */
import { type Bytes, STAMP_BYTES, StoreError } from "../store.ts";

const ORDER_BYTES = 2;
const OFFSET_BYTES = 4;
/** Stamped keys of one attempt are told apart by a u16. */
export const STAMPED_KEYS_MAX = 0x1_0000;

/** Becomes the key `prefix ‖ stamp ‖ order (u16, big-endian) ‖ suffix`. */
export function stampedKeyOperand(prefix: Bytes, order: number, suffix: Bytes): Buffer {
  if (!Number.isInteger(order) || order < 0 || order >= STAMPED_KEYS_MAX) {
    throw new StoreError("too_large", "too many stamped keys in one transaction", {
      details: { stamped_keys_max: STAMPED_KEYS_MAX },
    });
  }
  const stampAndOrder = Buffer.alloc(STAMP_BYTES + ORDER_BYTES);
  stampAndOrder.writeUInt16BE(order, STAMP_BYTES);
  return Buffer.concat([prefix, stampAndOrder, suffix, offset(prefix.length)]);
}

/** Becomes the value `prefix ‖ stamp ‖ suffix`. */
export function stampedValueOperand(prefix: Bytes, suffix: Bytes): Buffer {
  return Buffer.concat([prefix, Buffer.alloc(STAMP_BYTES), suffix, offset(prefix.length)]);
}

function offset(at: number): Buffer {
  const bytes = Buffer.alloc(OFFSET_BYTES);
  bytes.writeUInt32LE(at);
  return bytes;
}
