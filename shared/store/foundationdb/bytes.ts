/** Between the store's byte arrays and the Buffers of the addon. */
import type { Bytes } from "../store.ts";

/** The addon takes Buffers only. It copies what it is given before it returns, so a view is enough. */
export function bufferOf(bytes: Bytes): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** What the addon returns is a copy already, and the caller's from here on. */
export function bytesOf(buffer: Buffer): Bytes {
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
}
