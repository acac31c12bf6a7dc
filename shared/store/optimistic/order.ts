/**
 * Byte order of keys, as every engine keeps it. Inside the optimistic transaction a key is a latin1 string, one character per
 * byte: JavaScript compares such strings in byte order, and they can be map keys.
 */
import type { Bytes } from "../store.ts";

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

export function sameBytes(a: Bytes | undefined, b: Bytes | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return Buffer.compare(a, b) === 0;
}
