import { randomBytes, randomInt } from "node:crypto";
import { expect, test } from "vitest";
import { encryptBytes } from "../../../../shared/integrity/encryption/encrypted-bytes.ts";
import { newDataKey } from "../../../../shared/records/encryption/keys/key-record.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { RecentValues } from "../../../../shared/records/encryption/recent-values.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";

const { key } = newDataKey();
/** A value that was encrypted, as it is added. */
function made(bytes: number) {
  const address = randomBytes(randomInt(20, 80));
  const plain = randomBytes(bytes);
  return { encrypted: encryptBytes(key, plain, address), plain, address };
}
type Made = ReturnType<typeof made>;
const add = (recent: RecentValues, { encrypted, plain, address }: Made) =>
  recent.add(encrypted, plain, address);

test("a value is found by its encrypted bytes and its address, as a copy", () => {
  const recent = new RecentValues();
  const value = made(500);
  const { encrypted, plain, address } = value;
  expect(recent.find(encrypted, address)).toBeUndefined();
  add(recent, value);
  recent.find(encrypted, address)!.fill(0);
  expect(recent.find(encrypted, address)).toEqual(plain);
});

test("no changed byte is found, and no other address", () => {
  const recent = new RecentValues();
  const value = made(200);
  add(recent, value);
  for (const [i, byte] of value.encrypted.entries()) {
    const changed = Buffer.from(value.encrypted);
    changed[i] = byte ^ 1;
    expect(recent.find(changed, value.address)).toBeUndefined();
  }
  for (const [i, byte] of value.address.entries()) {
    const changed = Buffer.from(value.address);
    changed[i] = byte ^ 1;
    expect(recent.find(value.encrypted, changed)).toBeUndefined();
  }
  expect(recent.find(value.encrypted.subarray(0, -1), value.address)).toBeUndefined();
  expect(recent.find(value.encrypted, value.address.subarray(0, -1))).toBeUndefined();
  // A byte more in one and less in the other: the same bytes one after the other.
  const [first] = value.encrypted;
  const moved = Buffer.concat([value.address, Buffer.of(first!)]);
  expect(recent.find(value.encrypted.subarray(1), moved)).toBeUndefined();
});

test("the oldest values are overwritten, and what is found is always right", () => {
  const recent = new RecentValues();
  const values: Made[] = [];
  let found = 0;
  for (let i = 0; i < 12_000; i += 1) {
    const value = made(randomInt(0, 2_500));
    values.push(value);
    add(recent, value);
    const some = values[randomInt(0, values.length)]!;
    const plain = recent.find(some.encrypted, some.address);
    if (plain === undefined) continue;
    found += 1;
    expect(plain.equals(some.plain)).toBe(true);
  }
  const isFound = ({ encrypted, address }: Made) => recent.find(encrypted, address) !== undefined;
  expect(isFound(values.at(-1)!)).toBe(true);
  expect(values.slice(0, 1_000).some(isFound)).toBe(false);
  expect(found).toBeGreaterThan(1_000);
});

test("a long value is not kept, an empty one is", () => {
  const recent = new RecentValues();
  const [long, empty] = [made(20_000), made(0)];
  add(recent, long);
  add(recent, empty);
  expect(recent.find(long.encrypted, long.address)).toBeUndefined();
  expect(recent.find(empty.encrypted, empty.address)).toEqual(empty.plain);
});

test("a row that the process has just written is damaged when one byte of it was changed", async () => {
  const engine = await openStore("memory:");
  const { store } = await openEncryption(engine, [rootKey()]);
  const row = tenantKeys("default").task("t1");
  const write = { label: "test", deadlineMs: 20_000, onUnknown: "safe" } as const;
  const look = () => store.read(write, (reader) => reader.get(row));
  await store.transact(write, async (tx) => tx.set(row, Buffer.from("a value of the task")));
  expect(Buffer.from((await look())!).toString()).toBe("a value of the task");
  await engine.transact(write, async (tx) => {
    const stored = Buffer.from((await tx.get(row))!);
    stored[30] = stored[30]! ^ 1;
    tx.set(row, stored);
  });
  expect(Buffer.from((await look())!).includes("value")).toBe(false);
  await engine.close({ drainMs: 1_000 });
});
