import { expect, test } from "vitest";
import { decodeChecked, encodeChecked, encodeCheckedBytes } from "../../../../shared/records/kv/codec.ts";

const LENGTHS = [0, 1, 31, 32, 255, 256, 257, 65_535, 65_536, 70_000];

test("an array of byte strings has the same bytes as from the library", () => {
  for (const length of LENGTHS) {
    const parts = [Buffer.alloc(length, 7), Buffer.alloc(3), new Uint8Array(length)];
    const encoded = encodeCheckedBytes(parts);
    expect(Buffer.compare(encoded, encodeChecked(parts))).toBe(0);
    expect(decodeChecked<Buffer[]>(encoded).map((part) => part.length)).toEqual([length, 3, length]);
  }
  for (const count of [0, 1, 15, 16, 17]) {
    const parts = Array.from({ length: count }, (_, i) => Buffer.alloc(i, i));
    expect(Buffer.compare(encodeCheckedBytes(parts), encodeChecked(parts))).toBe(0);
  }
});

test("a changed byte of such an array is noticed", () => {
  const encoded = encodeCheckedBytes([Buffer.from("key"), Buffer.from("payload")]);
  for (let i = 0; i < encoded.length; i += 1) {
    const changed = Buffer.from(encoded);
    changed[i] = changed[i]! ^ 1;
    expect(() => decodeChecked(changed)).toThrow();
  }
});
