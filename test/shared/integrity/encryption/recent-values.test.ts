import { createSecretKey, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { type DataKey, encryptBytes } from "../../../../shared/integrity/encryption/encrypted-bytes.ts";
import { RecentValues } from "../../../../shared/integrity/encryption/recent-values.ts";

const key: DataKey = { id: randomBytes(8), secret: createSecretKey(randomBytes(32)) };
const ADDRESS = Buffer.from("t/acme/task-1");

function sealedValue(bytes: number) {
  const plain = randomBytes(bytes);
  return { plain, sealed: encryptBytes(key, plain, ADDRESS) };
}

test("a value is found by the same bytes at the same address", () => {
  const recent = new RecentValues();
  const { plain, sealed } = sealedValue(300);
  recent.remember(sealed, plain, ADDRESS);
  expect(recent.find(Buffer.from(sealed), Buffer.from(ADDRESS))).toEqual(plain);
});

test("a value with any changed byte is not found", () => {
  const recent = new RecentValues();
  const { plain, sealed } = sealedValue(20);
  recent.remember(sealed, plain, ADDRESS);
  for (const at of sealed.keys()) {
    const changed = Buffer.from(sealed);
    changed[at]! ^= 1;
    expect(recent.find(changed, ADDRESS), `byte ${at}`).toBeUndefined();
  }
});

test("a value is not found at another address", () => {
  const recent = new RecentValues();
  const { plain, sealed } = sealedValue(300);
  recent.remember(sealed, plain, ADDRESS);
  expect(recent.find(sealed, Buffer.from("t/acme/task-2"))).toBeUndefined();
});

test("a change of what was found changes no later answer", () => {
  const recent = new RecentValues();
  const { plain, sealed } = sealedValue(300);
  recent.remember(sealed, plain, ADDRESS);
  recent.find(sealed, ADDRESS)!.fill(0);
  expect(recent.find(sealed, ADDRESS)).toEqual(plain);
});

test("old values make room for new ones", () => {
  const recent = new RecentValues();
  const first = sealedValue(1_000);
  recent.remember(first.sealed, first.plain, ADDRESS);
  let last = first;
  for (let i = 0; i < 15_000; i += 1) {
    last = sealedValue(1_000);
    recent.remember(last.sealed, last.plain, ADDRESS);
  }
  expect(recent.find(first.sealed, ADDRESS)).toBeUndefined();
  expect(recent.find(last.sealed, ADDRESS)).toEqual(last.plain);
});

test("long values are not kept", () => {
  const recent = new RecentValues();
  const { plain, sealed } = sealedValue(4_096);
  recent.remember(sealed, plain, ADDRESS);
  expect(recent.find(sealed, ADDRESS)).toBeUndefined();
});

test("bytes that are not encrypted are not found", () => {
  const recent = new RecentValues();
  expect(recent.find(Buffer.alloc(0), ADDRESS)).toBeUndefined();
  expect(recent.find(Buffer.from("a plain line"), ADDRESS)).toBeUndefined();
});
