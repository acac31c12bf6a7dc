import type { Bytes } from "./store.ts";

/** Whether two values of a key are the same; undefined: the key has no value. */
export function sameBytes(a: Bytes | undefined, b: Bytes | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return Buffer.compare(a, b) === 0;
}
