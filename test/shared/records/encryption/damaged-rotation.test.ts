/** Rows that a rotation of bucket keys needs were damaged: it ends all the same. */
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  readBucketCounts,
  readEncryptionStatus,
} from "../../../../shared/records/encryption/encryption-status.ts";
import {
  type OpenedEncryption,
  openEncryption,
} from "../../../../shared/records/encryption/open-encryption.ts";
import { decodeChecked, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Bytes, Store } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { requestBuckets, rotateBuckets, stepBuckets } from "../../../harness/encryption/rotation.ts";

const LOOK = { label: "test", deadlineMs: 20_000 } as const;
const root = rootKey();
const tenants = ["clinic", "lab"];
const tasks = ["t1", "t2", "t3"];
let engine: Store;
let opened: OpenedEncryption;

beforeEach(async () => {
  engine = await openStore("memory:");
  opened = await openEncryption(engine, [root]);
  for (const tenant of tenants) for (const task of tasks) await put(tenant, task);
});
afterEach(() => engine.close({ drainMs: 1_000 }));

const put = (tenant: string, task: string) =>
  opened.store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(tenantKeys(tenant).task(task), encodeChecked(`${tenant}/${task}`)),
  );

async function damage(key: Bytes): Promise<void> {
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => {
    const damaged = Buffer.from((await tx.get(key))!);
    damaged[damaged.length - 1]! ^= 1;
    tx.set(key, damaged);
  });
}

/** By a service that started now. */
async function requireAll(): Promise<void> {
  const { store } = await openEncryption(engine, [root]);
  for (const tenant of tenants)
    for (const task of tasks) {
      const value = await store.read(LOOK, (reader) => reader.get(tenantKeys(tenant).task(task)));
      expect(decodeChecked(value!)).toBe(`${tenant}/${task}`);
    }
}

const step = () => stepBuckets({ ...opened, engine });
const bucketsOf = async (tenant: string) =>
  (await engine.read(LOOK, (reader) => reader.getRange(systemKeys.bucketKeysOf(tenant), { limit: 9 }))).rows;

test.each([
  { phase: "waiting for its retry", steps: 0 },
  { phase: "after its first step", steps: 1 },
  { phase: "in the walk", steps: 3 },
])("a rotation whose record was damaged, $phase, walks over all tenants again", async ({ steps }) => {
  if (steps === 0) await damage(tenantKeys("lab").dataKeys("t1"));
  await requestBuckets(opened.store);
  if (steps === 0) expect(await rotateBuckets({ ...opened, engine })).toMatchObject({ state: "waiting" });
  for (let n = 0; n < steps; n += 1) await step();
  await damage(systemKeys.encryptionRotation());
  expect(await readEncryptionStatus(opened.store, opened)).toMatchObject({ rotation_retry_at: null });
  const rotated = await rotateBuckets({ ...opened, engine });
  if (steps === 0) {
    expect(rotated).toMatchObject({ state: "waiting", record: { pass: 1, damaged: 1 } });
    return;
  }
  expect(rotated).toMatchObject({ state: "idle", record: null });
  for (const tenant of tenants) expect(await bucketsOf(tenant)).toHaveLength(1);
  expect(await engine.read(LOOK, (reader) => reader.get(systemKeys.encryptionRotation()))).toBeUndefined();
  await requireAll();
});

test("what a rotation of root keys counts needs neither record of the encryption", async () => {
  await requestBuckets(opened.store);
  await step();
  await damage(systemKeys.encryptionRotation());
  await damage(systemKeys.encryption());
  expect(await readBucketCounts(opened.store, opened)).toMatchObject({
    ...{ bucket_keys: 6, bucket_keys_damaged: 0, tenants_in_rotation: 3 },
  });
});

test("a new bucket key that is damaged in a rotation is replaced, and no data key counts as damaged", async () => {
  await requestBuckets(opened.store);
  expect(await step()).toMatchObject({ record: { phase: "wrapping" } });
  await damage(systemKeys.bucketKey("lab", 2));
  expect(await readEncryptionStatus(opened.store, opened)).toMatchObject({ bucket_keys_damaged: 1 });
  expect(await rotateBuckets({ ...opened, engine })).toMatchObject({ state: "idle", record: null });
  expect(await readEncryptionStatus(opened.store, opened)).toMatchObject({
    ...{ bucket_keys: 3, bucket_keys_damaged: 0, data_keys_damaged: 0, tenants_in_rotation: 0 },
  });
  expect(await bucketsOf("lab")).toMatchObject([{ key: systemKeys.bucketKey("lab", 3) }]);
  await requireAll();
});

test("after a rotation, a tenant whose only bucket key was damaged writes again", async () => {
  await damage(systemKeys.bucketKey("lab", 1));
  opened = await openEncryption(engine, [root]);
  await expect(put("lab", "t4")).rejects.toThrow();
  await requestBuckets(opened.store);
  expect(await rotateBuckets({ ...opened, engine })).toMatchObject({
    ...{ state: "waiting", record: { damaged: tasks.length } },
  });
  await put("lab", "t4");
  await put("clinic", "t4");
});
