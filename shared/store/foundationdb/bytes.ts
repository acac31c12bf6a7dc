/** From the store's byte arrays to the Buffers of the addon. What the addon returns is a copy and needs no change. */
import type { Bytes } from "../store.ts";

/** The addon takes Buffers only. It copies what it is given before it returns, so a view is enough. */
export function bufferOf(bytes: Bytes): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
