import { afterEach, beforeEach, expect, test } from "vitest";
import {
  KeyEncryptionError,
  type KeyEncryptionKey,
} from "../../../../shared/integrity/encryption/key-encryption-key.ts";
import { readEncryptionStatus } from "../../../../shared/records/encryption/encryption-status.ts";
import {
  addBuckets,
  beginRotation,
  rewrapBuckets,
  rewrapDataKeysOfAll,
} from "../../../../shared/records/encryption/jobs/rotation.ts";
import { decodeBucket, encodeBucket } from "../../../../shared/records/encryption/keys/key-record.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../../../../shared/records/kv/codec.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Store, Tx } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { OPERATOR } from "../../../harness/records/records.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

const [first, second] = [rootKey(), rootKey()];
const guard = async () => {};
const LOOK = { label: "test", deadlineMs: 20_000 } as const;
const tasks = Array.from({ length: 20 }, (_, n) => `task-${n}`);
const tenants = ["default", "clinic", "lab"];
let engine: Store;

beforeEach(async () => {
  engine = await openStore("memory:");
});
afterEach(() => engine.close({ drainMs: 1_000 }));

const put = (store: Store, tenant: string, task: string, value: unknown) =>
  store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(tenantKeys(tenant).task(task), encodeChecked(value)),
  );
const read = (store: Store, tenant: string, task: string) =>
  store.read(LOOK, async (reader) => decodeChecked((await reader.get(tenantKeys(tenant).task(task)))!));

const raw = (key: Uint8Array) => engine.read(LOOK, (reader) => reader.get(key));

async function fill(store: Store): Promise<void> {
  for (const tenant of tenants) for (const task of tasks) await put(store, tenant, task, `${tenant}/${task}`);
}

async function requireAll(store: Store): Promise<void> {
  for (const tenant of tenants)
    for (const task of tasks) expect(await read(store, tenant, task)).toBe(`${tenant}/${task}`);
}

test("after a new root key, the first one is no longer needed, while services with the old setting still work", async () => {
  const before = await openEncryption(engine, [first]);
  await fill(before.store);
  const after = await openEncryption(engine, [second, first]);
  expect(await readEncryptionStatus(after.store, after)).toMatchObject({ bucket_keys_of_other_roots: 4 });
  expect(await rewrapBuckets({ engine, ring: after.ring, guard })).toEqual({ rewrapped: 4, damaged: 0 });
  expect(await rewrapBuckets({ engine, ring: after.ring, guard })).toEqual({ rewrapped: 0, damaged: 0 });
  expect(await readEncryptionStatus(after.store, after)).toMatchObject({ bucket_keys_of_other_roots: 0 });
  await requireAll((await openEncryption(engine, [second])).store);
  await requireAll(before.store);
  await expect(openEncryption(engine, [first])).rejects.toMatchObject({ kind: "unavailable" });
});

test("no rotation of root keys is begun while none of the keys can be unwrapped", async () => {
  const before = await openEncryption(engine, [first]);
  await fill(before.store);
  let [begun, isDown] = [0, false];
  const flaky: KeyEncryptionKey = {
    ...first,
    unwrap: async (wrapped, context) => {
      if (isDown) throw new KeyEncryptionError("unavailable", "the server of the key is down");
      return first.unwrap(wrapped, context);
    },
  };
  const { ring } = await openEncryption(engine, [second, flaky]);
  const rewrap = () =>
    rewrapBuckets({ engine, ring, guard }, async () => {
      begun += 1;
    });
  isDown = true;
  await expect(rewrap()).rejects.toMatchObject({ kind: "unavailable" });
  expect(begun).toBe(0);
  isDown = false;
  expect(await rewrap()).toEqual({ rewrapped: 4, damaged: 0 });
  expect(begun).toBe(1);
  // One that was moved to another tenant does not unwrap.
  const { root, ...moved } = decodeBucket((await raw(systemKeys.bucketKey("clinic", 1)))!)!;
  const key = systemKeys.bucketKey("lab", 1);
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(key, encodeBucket({ ...moved, root: first.id })),
  );
  expect(root).toBe(second.id);
  expect(await rewrap()).toEqual({ rewrapped: 0, damaged: 1 });
  expect(begun).toBe(1);
});

test("the status has all bucket keys of many tenants", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  const sound = (await raw(systemKeys.bucketKey(null, 1)))!;
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => {
    for (let n = 0; n < 1_500; n += 1) tx.set(systemKeys.bucketKey(`tenant-${n}`, 1), sound);
    tx.set(systemKeys.bucketKey("tenant-999", 2), Buffer.from("damaged"));
  });
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    bucket_keys: 1_502,
    bucket_keys_damaged: 1,
    bucket_keys_of_other_roots: 0,
    tenants_in_rotation: 1,
  });
});

test("a rotation of bucket keys wraps all data keys again while tasks are written, and removes the old ones", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  await fill(store);
  const other = await openEncryption(engine, [first]);
  await requireAll(other.store);
  expect(await addBuckets({ engine, ring, guard })).toBe(4);
  // The other service still knows the old bucket keys: what it makes meanwhile must not be lost.
  const late = Array.from({ length: 10 }, (_, n) => put(other.store, "lab", `late-${n}`, n));
  const rotated = rewrapDataKeysOfAll({ engine, ring, guard });
  await Promise.all(late);
  expect(await rotated).toMatchObject({ damaged: 0 });
  expect((await rewrapDataKeysOfAll({ engine, ring, guard })).damaged).toBe(0);
  const fresh = await openEncryption(engine, [first]);
  expect(await readEncryptionStatus(fresh.store, fresh)).toMatchObject({
    bucket_keys: 4,
    tenants_in_rotation: 0,
  });
  for (const opened of [store, other.store, fresh.store]) await requireAll(opened);
  for (let n = 0; n < 10; n += 1) expect(await read(fresh.store, "lab", `late-${n}`)).toBe(n);
  await put(other.store, "clinic", "new", 1);
  expect(await read(fresh.store, "clinic", "new")).toBe(1);
});

test("a damaged key stays as it is, with the bucket key that wrapped it", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  await fill(store);
  const key = tenantKeys("lab").dataKeys("task-3");
  const sound = await engine.read(LOOK, (reader) => reader.get(key));
  const damaged = Buffer.from(sound!);
  damaged[damaged.length - 1]! ^= 1;
  const write = (value: Uint8Array) =>
    engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.set(key, value));
  await write(damaged);
  await addBuckets({ engine, ring, guard });
  expect((await rewrapDataKeysOfAll({ engine, ring, guard })).damaged).toBe(1);
  const { rows } = await engine.read(LOOK, (reader) =>
    reader.getRange(systemKeys.bucketKeysOf("lab"), { limit: 9 }),
  );
  expect(rows).toHaveLength(2);
  await write(sound!);
  expect(await rewrapDataKeysOfAll({ engine, ring, guard })).toEqual({ rewrapped: 1, damaged: 0 });
  await requireAll((await openEncryption(engine, [first])).store);
});

test("a changed bucket key does not stop the work of other tenants", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  await fill(store);
  const damage = (tx: Tx) => tx.set(systemKeys.bucketKey("lab", 1), Buffer.from("damaged"));
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => damage(tx));
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    bucket_keys: 4,
    bucket_keys_damaged: 1,
  });
  const fresh = await openEncryption(engine, [second, first]);
  expect(await rewrapBuckets({ engine, ring: fresh.ring, guard })).toEqual({ rewrapped: 3, damaged: 1 });
  expect(await read(fresh.store, "clinic", "task-1")).toBe("clinic/task-1");
  await expect(read(fresh.store, "lab", "task-1")).rejects.toBeInstanceOf(UnreadableValue);
  await expect(put(fresh.store, "lab", "new", 1)).rejects.toBeInstanceOf(UnreadableValue);
});

test("a rotation that an operator requested is audited, and is carried out once", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  const repository = repositoryOn(store, { format: await openFormat(store) });
  await fill(store);
  await expect(repository.encryption.rotate({ ...OPERATOR, tenant: "clinic" })).rejects.toMatchObject({
    code: "FORBIDDEN",
  });
  expect(await repository.encryption.rotate(OPERATOR)).toMatchObject({ rotation: 1 });
  const { entries } = await repository.tenantActs.page("default", {
    from_seq: 1,
    limit: 10,
    signatures: false,
  });
  expect(entries.map(({ entry }) => JSON.parse(entry).action)).toEqual(["encryption_rotate"]);
  const rotating = { engine, ring, guard };
  expect(await beginRotation(store, rotating)).toBe(true);
  expect(await beginRotation(store, rotating)).toBe(false);
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    tenants_in_rotation: 4,
    rotations_pending: 0,
  });
  expect((await rewrapDataKeysOfAll(rotating)).damaged).toBe(0);
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    tenants_in_rotation: 0,
    bucket_keys: 4,
  });
  await requireAll((await openEncryption(engine, [first])).store);
});

test("a store that is not encrypted has no keys to rotate", async () => {
  const repository = repositoryOn(engine, { format: await openFormat(engine) });
  await expect(repository.encryption.rotate(OPERATOR)).rejects.toMatchObject({ code: "CONFLICT" });
});
