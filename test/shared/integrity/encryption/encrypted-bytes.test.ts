import { createSecretKey, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import {
  DATA_KEY_BYTES,
  DATA_KEY_ID_BYTES,
  type DataKey,
  decryptBytes,
  ENCRYPTED_BYTES_MORE,
  encryptBytes,
  encryptedWith,
} from "../../../../shared/integrity/encryption/encrypted-bytes.ts";
import { KeyEncryptionError } from "../../../../shared/integrity/encryption/key-encryption-key.ts";
import { secretKeyOf } from "../../../../shared/integrity/encryption/secret-key.ts";

const newKey = (): DataKey => ({
  id: randomBytes(DATA_KEY_ID_BYTES),
  secret: createSecretKey(randomBytes(DATA_KEY_BYTES)),
});
const key = newKey();
const here = Buffer.from("acme/task-1/3");

test.each([0, 1, 4_096, 65_536])("%s bytes decrypt at their address, with their key", (length) => {
  const plain = randomBytes(length);
  const encrypted = encryptBytes(key, plain, here);
  expect(encrypted).toHaveLength(length + ENCRYPTED_BYTES_MORE);
  expect(encryptedWith(encrypted)).toEqual(key.id);
  expect(decryptBytes(key, encrypted, here)).toEqual(plain);
});

test("equal bytes are encrypted differently each time, over many nonces", () => {
  const encrypted = Array.from({ length: 1_000 }, () => encryptBytes(key, here, here).toString("hex"));
  expect(new Set(encrypted).size).toBe(encrypted.length);
});

test("a change of any byte is found", () => {
  const encrypted = encryptBytes(key, Buffer.from("content"), here);
  for (let at = 0; at < encrypted.length; at += 1) {
    const changed = Buffer.from(encrypted);
    changed[at] = changed[at]! ^ 1;
    expect(decryptBytes(key, changed, here)).toBeNull();
  }
});

test("bytes that were cut, the tag included, do not decrypt", () => {
  const encrypted = encryptBytes(key, Buffer.from("content"), here);
  for (let length = 0; length < encrypted.length; length += 1)
    expect(decryptBytes(key, encrypted.subarray(0, length), here)).toBeNull();
});

test("bytes that were moved to another address do not decrypt, nor with another key of the same id", () => {
  const encrypted = encryptBytes(key, Buffer.from("content"), here);
  expect(decryptBytes(key, encrypted, Buffer.from("acme/task-2/3"))).toBeNull();
  expect(decryptBytes({ ...newKey(), id: key.id }, encrypted, here)).toBeNull();
  expect(decryptBytes(newKey(), encrypted, here)).toBeNull();
});

test("plain JSON, MessagePack and empty values are not taken for encrypted ones", () => {
  for (const plain of [Buffer.alloc(0), Buffer.from('{"a":1}'), Buffer.from([0x82, ...Array(60).fill(0)])])
    expect(encryptedWith(plain)).toBeNull();
});

test("a root key unwraps what it wrapped, in the same context only", async () => {
  const text = randomBytes(DATA_KEY_BYTES).toString("base64");
  const root = secretKeyOf(text)!;
  const plain = randomBytes(DATA_KEY_BYTES);
  const wrapped = await root.wrap(plain, "tenant acme");
  expect(await secretKeyOf(text)!.unwrap(wrapped, "tenant acme")).toEqual(plain);
  await expect(root.unwrap(wrapped, "tenant other")).rejects.toThrow(KeyEncryptionError);
  const other = secretKeyOf(randomBytes(DATA_KEY_BYTES).toString("base64"))!;
  expect(other.id).not.toBe(root.id);
  await expect(other.unwrap(wrapped, "tenant acme")).rejects.toMatchObject({ kind: "invalid" });
  expect(Buffer.from(root.id).includes(Buffer.from(text).subarray(0, 8))).toBe(false);
});

test.each(["", "short", "A".repeat(44), `${"A".repeat(42)}B=`, "not base64!", `${"A".repeat(43)}=\n`])(
  "the text %j is no root key",
  (text) => expect(secretKeyOf(text)).toBeNull(),
);
