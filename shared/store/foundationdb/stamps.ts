/**
 * The operands of FoundationDB's two versionstamp mutations. The engine writes the commit's 10 bytes over the place
 * that the last four bytes (little-endian) point at, and cuts those four off. What is left is the layout that every
 * driver of the store writes.
 */
import { ORDER_BYTES } from "../limits.ts";
import { type Bytes, STAMP_BYTES } from "../store.ts";

const OFFSET_BYTES = 4;

/** Becomes the key `prefix ‖ stamp ‖ order (u16, big-endian) ‖ suffix`. */
export function stampedKeyOperand(prefix: Bytes, order: number, suffix: Bytes): Buffer {
  const stampAndOrder = Buffer.alloc(STAMP_BYTES + ORDER_BYTES);
  stampAndOrder.writeUInt16BE(order, STAMP_BYTES);
  return Buffer.concat([prefix, stampAndOrder, suffix, stampOffset(prefix.length)]);
}

/** Becomes the value `prefix ‖ stamp ‖ suffix`. */
export function stampedValueOperand(prefix: Bytes, suffix: Bytes): Buffer {
  return Buffer.concat([prefix, Buffer.alloc(STAMP_BYTES), suffix, stampOffset(prefix.length)]);
}

function stampOffset(offset: number): Buffer {
  const bytes = Buffer.alloc(OFFSET_BYTES);
  bytes.writeUInt32LE(offset);
  return bytes;
}
