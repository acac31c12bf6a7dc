/** A tenant with as many bucket keys as it may have: a rotation makes room, and gives it a new one. */
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  KeyEncryptionError,
  type KeyEncryptionKey,
} from "../../../../shared/integrity/encryption/key-encryption-key.ts";
import { readEncryptionStatus } from "../../../../shared/records/encryption/encryption-status.ts";
import { BUCKET_KEYS_MAX } from "../../../../shared/records/encryption/keys/bucket-keys.ts";
import { parseBucketKey } from "../../../../shared/records/encryption/keys/encryption-keys.ts";
import { encodeBucket } from "../../../../shared/records/encryption/keys/key-record.ts";
import { ownerOfTenant } from "../../../../shared/records/encryption/keys/place.ts";
import {
  type OpenedEncryption,
  openEncryption,
} from "../../../../shared/records/encryption/open-encryption.ts";
import { decodeChecked, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { requestBuckets, rotateBuckets } from "../../../harness/encryption/rotation.ts";

const LOOK = { label: "test", deadlineMs: 20_000 } as const;
const first = rootKey();
let engine: Store;
let opened: OpenedEncryption;

beforeEach(async () => {
  engine = await openStore("memory:");
  opened = await openEncryption(engine, [first]);
  for (const tenant of ["clinic", "lab"])
    for (const task of ["task-3", "task-4"]) await put(opened.store, tenant, task, `${tenant}/${task}`);
});
afterEach(() => engine.close({ drainMs: 1_000 }));

const put = (store: Store, tenant: string, task: string, value: unknown) =>
  store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(tenantKeys(tenant).task(task), encodeChecked(value)),
  );
const read = (store: Store, tenant: string, task: string) =>
  store.read(LOOK, async (reader) => decodeChecked((await reader.get(tenantKeys(tenant).task(task)))!));

/** Gives a tenant as many bucket keys as it may have. The first one wraps its data keys. */
async function fillBucketKeys(tenant: string): Promise<void> {
  const { ring } = opened;
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => {
    for (let generation = 2; generation <= BUCKET_KEYS_MAX; generation += 1) {
      const fresh = await ring.buckets.fresh(ownerOfTenant(tenant));
      tx.set(systemKeys.bucketKey(tenant, generation), encodeBucket(fresh));
    }
  });
  ring.buckets.forget(ownerOfTenant(tenant));
}

const generationsOf = async (tenant: string) =>
  (
    await engine.read(LOOK, (reader) => reader.getRange(systemKeys.bucketKeysOf(tenant), { limit: 200 }))
  ).rows.map(({ key }) => parseBucketKey(key).generation);
const damageKeyOf = (task: string) =>
  engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(tenantKeys("lab").dataKeys(task), Buffer.from("damaged")),
  );

test("a tenant whose damaged keys have kept a hundred bucket keys gets a new one again", async () => {
  const { store } = opened;
  await damageKeyOf("task-3");
  await fillBucketKeys("lab");
  expect(await readEncryptionStatus(store, opened)).toMatchObject({ tenants_at_key_limit: 1 });
  await requestBuckets(store);
  expect(await rotateBuckets({ ...opened, engine })).toMatchObject({ record: { damaged: 1 } });
  // The key in use, and half as many as there may be, for a data key that comes back from a backup.
  expect(await generationsOf("lab")).toEqual(Array.from({ length: 51 }, (_, n) => n + 50));
  expect(await readEncryptionStatus(store, opened)).toMatchObject({
    ...{ rotations_pending: 0, tenants_in_rotation: 1, tenants_at_key_limit: 0 },
  });
  await requestBuckets(store);
  expect(await rotateBuckets({ ...opened, engine })).toMatchObject({ record: { damaged: 1 } });
  expect(await generationsOf("lab")).toEqual(Array.from({ length: 51 }, (_, n) => n + 51));
  const fresh = (await openEncryption(engine, [first])).store;
  expect(await read(fresh, "lab", "task-4")).toBe("lab/task-4");
  expect(await read(fresh, "clinic", "task-4")).toBe("clinic/task-4");
});

test("a tenant with a hundred bucket keys, the newest of which is damaged, writes again after a rotation", async () => {
  const { store } = opened;
  await damageKeyOf("task-3");
  await fillBucketKeys("lab");
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(systemKeys.bucketKey("lab", 100), Buffer.from("damaged")),
  );
  await expect(put((await openEncryption(engine, [first])).store, "lab", "new", 1)).rejects.toThrow();
  await requestBuckets(store);
  await rotateBuckets({ ...opened, engine });
  expect((await generationsOf("lab")).at(-1)).toBe(101);
  const fresh = (await openEncryption(engine, [first])).store;
  await put(fresh, "lab", "new", "written");
  expect(await read(fresh, "lab", "new")).toBe("written");
  expect(await read(fresh, "lab", "task-4")).toBe("lab/task-4");
});

test("a root key that is away keeps all bucket keys that it wrapped, and when it is back two rotations replace them", async () => {
  await fillBucketKeys("lab");
  let isAway = true;
  const flaky: KeyEncryptionKey = {
    ...first,
    unwrap: async (wrapped, context) => {
      if (isAway && context.includes(" t/lab "))
        throw new KeyEncryptionError("unavailable", "the server of the key is down");
      return first.unwrap(wrapped, context);
    },
  };
  opened = await openEncryption(engine, [flaky]);
  const rotated = async () => {
    await requestBuckets(opened.store);
    return rotateBuckets({ ...opened, engine });
  };
  expect(await rotated()).toMatchObject({ state: "waiting", record: { damaged: 0, unavailable: 1 } });
  expect(await generationsOf("lab")).toHaveLength(BUCKET_KEYS_MAX);
  expect(await readEncryptionStatus(opened.store, opened)).toMatchObject({ tenants_at_key_limit: 1 });
  isAway = false;
  expect(await rotated()).toMatchObject({ state: "idle" });
  expect(await generationsOf("lab")).toEqual([100]);
  expect(await rotated()).toMatchObject({ state: "idle" });
  expect(await generationsOf("lab")).toEqual([101]);
  const fresh = (await openEncryption(engine, [first])).store;
  expect(await read(fresh, "lab", "task-4")).toBe("lab/task-4");
});
