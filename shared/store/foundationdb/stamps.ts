/**
 * The operands of FoundationDB's two versionstamp mutations. The last four bytes (little-endian) are an
 * offset: the engine writes the 10 bytes of the stamp there and cuts the four bytes off. The result has the
 * layout of every driver of the store.
 */
import { ORDER_BYTES } from "../limits.ts";
import { type Bytes, STAMP_BYTES } from "../store.ts";

const OFFSET_BYTES = 4;

/** Results in the key `prefix ‖ stamp ‖ order (u16, big-endian) ‖ suffix`. */
export function stampedKeyOperand(prefix: Bytes, order: number, suffix: Bytes): Buffer {
  const stampAndOrder = Buffer.alloc(STAMP_BYTES + ORDER_BYTES);
  stampAndOrder.writeUInt16BE(order, STAMP_BYTES);
  return Buffer.concat([prefix, stampAndOrder, suffix, stampOffset(prefix.length)]);
}

/** Results in the value `prefix ‖ stamp ‖ suffix`. */
export function stampedValueOperand(prefix: Bytes, suffix: Bytes): Buffer {
  return Buffer.concat([prefix, Buffer.alloc(STAMP_BYTES), suffix, stampOffset(prefix.length)]);
}

function stampOffset(offset: number): Buffer {
  const bytes = Buffer.alloc(OFFSET_BYTES);
  bytes.writeUInt32LE(offset);
  return bytes;
}
