/**
 * Keys of the embedded engines. Inside a transaction a key is a latin1 string, one character per byte:
 * JavaScript compares such strings in byte order, and they can be map keys.
 */
import type { Bytes } from "../store.ts";

/**
 * The key of the commit counter (8 bytes, big-endian). Like {@link PROBE_KEY} it lies outside the space of
 * callers' keys.
 */
export const SEQUENCE_KEY = Buffer.from([0xfe, 0x73]); // "s"

/** The key that health checks write. */
export const PROBE_KEY = Buffer.from([0xfe, 0x70]); // "p"

/** The key as a string that sorts and hashes like its bytes. */
export function keyText(key: Bytes): string {
  const buffer = key instanceof Buffer ? key : Buffer.from(key.buffer, key.byteOffset, key.byteLength);
  return buffer.toString("latin1");
}

/** Inverse of {@link keyText}. */
export function keyBytes(text: string): Buffer {
  return Buffer.from(text, "latin1");
}

/** The first key after `key`: the exclusive end of a range that ends with it. */
export function keyAfter(key: Bytes): Buffer {
  const after = Buffer.alloc(key.length + 1);
  after.set(key);
  return after;
}
