// The search that the tests of encryption rely on finds a text in each of its forms.

import { randomBytes } from "node:crypto";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { holdsText } from "../../harness/encryption/raw-bytes.ts";

const TEXT = `canary-${randomBytes(12).toString("hex")}`;
const around = (content: Buffer | string) =>
  Buffer.concat([randomBytes(101), Buffer.from(content), randomBytes(57)]);

test.each([
  ["UTF-8", around(TEXT)],
  ["hex", around(Buffer.from(TEXT).toString("hex"))],
  ["UTF-16", around(Buffer.from(TEXT, "utf16le"))],
  ["base64", around(Buffer.from(TEXT).toString("base64"))],
  ["base64 after one byte", around(Buffer.from(`{${TEXT}}`).toString("base64"))],
  ["base64 after two bytes", around(Buffer.from(`{"${TEXT}"}`).toString("base64"))],
  ["base64 for URLs", around(Buffer.from(`??>${TEXT}`).toString("base64url"))],
  ["JSON", around(JSON.stringify({ text: TEXT }))],
  ["escaped JSON", around([...TEXT].map((one) => `\\u00${one.charCodeAt(0).toString(16)}`).join(""))],
  ["gzip", around(gzipSync(`${"filler ".repeat(50)}${TEXT}`))],
  ["zlib", around(deflateSync(`${"filler ".repeat(50)}${TEXT}`))],
  ["brotli", brotliCompressSync(`${"filler ".repeat(50)}${TEXT}`)],
])("a text in %s is found", (_, bytes) => expect(holdsText(bytes, TEXT)).toBe(true));

test("random bytes and other texts do not hold it", () => {
  expect(holdsText(randomBytes(1_000_000), TEXT)).toBe(false);
  expect(holdsText(around(TEXT.slice(0, -1)), TEXT)).toBe(false);
});
