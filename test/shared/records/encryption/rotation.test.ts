import { afterEach, beforeEach, expect, test } from "vitest";
import {
  KeyEncryptionError,
  type KeyEncryptionKey,
} from "../../../../shared/integrity/encryption/key-encryption-key.ts";
import { readEncryptionStatus } from "../../../../shared/records/encryption/encryption-status.ts";
import { rewrapBuckets } from "../../../../shared/records/encryption/jobs/root-rotation.ts";
import { parseBucketKey } from "../../../../shared/records/encryption/keys/encryption-keys.ts";
import { decodeBucket, encodeBucket } from "../../../../shared/records/encryption/keys/key-record.ts";
import { ownerOfTenant } from "../../../../shared/records/encryption/keys/place.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../../../../shared/records/kv/codec.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import {
  acquireLease,
  LeaseLost,
  releaseLease,
  requireLease,
} from "../../../../shared/records/leader/lease.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Store, Tx } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import {
  addTaskKeys,
  requestBuckets,
  rotateBuckets,
  stepBuckets,
} from "../../../harness/encryption/rotation.ts";
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
  const done = { others: 0, damaged: 0 };
  expect(await rewrapBuckets({ engine, ring: after.ring, guard })).toMatchObject({ rewrapped: 4, ...done });
  expect(await rewrapBuckets({ engine, ring: after.ring, guard })).toMatchObject({ rewrapped: 0, ...done });
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
  const begin = async () => {
    begun += 1;
  };
  const rewrap = () => rewrapBuckets({ engine, ring, guard }, { begin });
  isDown = true;
  const { away, ...left } = await rewrap();
  expect(left).toMatchObject({ rewrapped: 0, others: 4, damaged: 0 });
  expect([...away]).toMatchObject([[first.id, { kind: "unavailable" }]]);
  expect(begun).toBe(0);
  isDown = false;
  expect(await rewrap()).toMatchObject({ rewrapped: 4, others: 0, damaged: 0 });
  expect(begun).toBe(1);
  // One that was moved to another tenant does not unwrap.
  const { root, ...moved } = decodeBucket((await raw(systemKeys.bucketKey("clinic", 1)))!)!;
  const key = systemKeys.bucketKey("lab", 1);
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(key, encodeBucket({ ...moved, root: first.id })),
  );
  expect(root).toBe(second.id);
  expect(await rewrap()).toMatchObject({ rewrapped: 0, others: 1, damaged: 1 });
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
  await requestBuckets(store);
  // The other service still knows the old bucket keys: what it makes meanwhile must not be lost.
  const late = Array.from({ length: 10 }, (_, n) => put(other.store, "lab", `late-${n}`, n));
  const rotated = rotateBuckets({ store, engine, ring });
  await Promise.all(late);
  expect(await rotated).toMatchObject({ state: "idle", record: null });
  expect(await rotateBuckets({ store, engine, ring })).toMatchObject({ state: "idle", rewrapped: 0 });
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

const bucketsOf = async (tenant: string) =>
  (await engine.read(LOOK, (reader) => reader.getRange(systemKeys.bucketKeysOf(tenant), { limit: 9 }))).rows;

test("a damaged key stays as it is, with the bucket key that wrapped it, and is tried again later and later", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  await fill(store);
  const key = tenantKeys("lab").dataKeys("task-3");
  const sound = (await raw(key))!;
  const damaged = Buffer.from(sound);
  damaged[damaged.length - 1]! ^= 1;
  const write = (value: Uint8Array) =>
    engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.set(key, value));
  await write(damaged);
  await requestBuckets(store);
  let nowMs = Date.parse("2026-05-05T10:00:00.000Z");
  const rotate = () => rotateBuckets({ store, engine, ring, nowMs });
  expect(await rotate()).toMatchObject({
    // The keys of 20 tasks of each tenant, of the tenants that wrote rows of no task, and of the system.
    ...{ state: "waiting", rewrapped: 3 * 20 + 1 - 1 },
    record: { damaged: 1, unavailable: 0, pass: 1, retry_at: "2026-05-05T10:01:00.000Z" },
  });
  expect(await bucketsOf("lab")).toHaveLength(2);
  expect(await bucketsOf("clinic")).toHaveLength(1);
  const seen = { data_keys_damaged: 1, tenants_unavailable: 0, tenants_in_rotation: 1, rotations_pending: 0 };
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    ...seen,
    rotation_retry_at: "2026-05-05T10:01:00.000Z",
  });
  nowMs += 59_000;
  expect(await rotate()).toMatchObject({ steps: 1, state: "waiting", record: { pass: 1 } });
  nowMs += 1_000;
  expect(await rotate()).toMatchObject({
    ...{ state: "waiting", rewrapped: 0 },
    record: { damaged: 1, pass: 2, retry_at: "2026-05-05T10:03:00.000Z" },
  });
  await write(sound);
  // A clock that ran ahead must not stop the rotation.
  nowMs -= 86_400_000;
  expect(await rotate()).toMatchObject({ state: "idle", rewrapped: 1, record: null });
  expect(await bucketsOf("lab")).toHaveLength(1);
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    ...{ data_keys_damaged: 0, rotation_retry_at: null, tenants_in_rotation: 0 },
  });
  await requireAll((await openEncryption(engine, [first])).store);
});

test("a request while damaged keys wait begins a new rotation at once", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  await fill(store);
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(tenantKeys("lab").dataKeys("task-3"), Buffer.from("damaged")),
  );
  for (const rotation of [1, 2]) {
    await requestBuckets(store);
    expect(await rotateBuckets({ store, engine, ring })).toMatchObject({ record: { rotation, pass: 1 } });
  }
  expect(await bucketsOf("lab")).toHaveLength(3);
  expect(await bucketsOf("default")).toHaveLength(1);
});

test("a root key that cannot be used stops only the bucket keys that it wrapped", async () => {
  const before = await openEncryption(engine, [first]);
  await fill(before.store);
  const third = rootKey();
  const moved = decodeBucket((await raw(systemKeys.bucketKey("clinic", 1)))!)!;
  const secret = (await before.ring.buckets.unwrap(ownerOfTenant("clinic"), moved))!;
  const byThird = await openEncryption(engine, [third, first]);
  const record = await byThird.ring.buckets.wrapped(ownerOfTenant("clinic"), moved.id, secret);
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(systemKeys.bucketKey("clinic", 1), encodeBucket(record)),
  );
  // The setting lacks the third root key.
  const { store, ring } = await openEncryption(engine, [second, first]);
  const { away, ...done } = await rewrapBuckets({ engine, ring, guard });
  expect(done).toMatchObject({ rewrapped: 3, others: 1, damaged: 0 });
  expect([...away.keys()]).toEqual([third.id]);
  await requestBuckets(store);
  const rotated = await rotateBuckets({ store, engine, ring });
  expect(rotated).toMatchObject({ state: "waiting", record: { damaged: 0, unavailable: 1 } });
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    ...{ tenants_in_rotation: 1, tenants_unavailable: 1, bucket_keys_of_other_roots: 1 },
  });
  expect(await bucketsOf("lab")).toHaveLength(1);
  const all = await openEncryption(engine, [second, third]);
  expect(await rewrapBuckets({ engine, ring: all.ring, guard })).toMatchObject({ rewrapped: 1, others: 0 });
  const nowMs = Date.now() + 86_400_000;
  expect(await rotateBuckets({ store: all.store, engine, ring: all.ring, nowMs })).toMatchObject({
    ...{ state: "idle", rewrapped: 20 },
  });
  await requireAll((await openEncryption(engine, [second])).store);
});

test("of two watchdogs, the one that lost the lease changes nothing, and the other continues where it was", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  await fill(store);
  await requestBuckets(store);
  const wanted = { job: "encryption", nowMs: Date.now(), leaseMs: 10_000 } as const;
  const lost = (await acquireLease(store, { ...wanted, holder: "one" }))!;
  const old = { store, engine, ring, guard: (tx: Tx) => requireLease(tx, lost) };
  // The bucket keys, then the keys of the system and of one tenant.
  let rewrapped = 0;
  for (let step = 1; step <= 3; step += 1) rewrapped += (await stepBuckets(old)).rewrapped;
  expect(rewrapped).toBeGreaterThan(0);
  await releaseLease(store, lost);
  const lease = (await acquireLease(store, { ...wanted, holder: "two" }))!;
  const other = await openEncryption(engine, [first]);
  const next = { store: other.store, engine, ring: other.ring, guard: (tx: Tx) => requireLease(tx, lease) };
  rewrapped += (await stepBuckets(next)).rewrapped;
  await expect(stepBuckets(old)).rejects.toBeInstanceOf(LeaseLost);
  const rest = await rotateBuckets(next);
  // Each row was wrapped again once.
  expect(rewrapped + rest.rewrapped).toBe(3 * 20 + 1);
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    bucket_keys: 4,
    tenants_in_rotation: 0,
  });
  const generations = (await Promise.all(tenants.map(bucketsOf))).map(
    ([row]) => parseBucketKey(row!.key).generation,
  );
  expect(generations).toEqual([2, 2, 2]);
  await requireAll((await openEncryption(engine, [first])).store);
});

test("a rotation with thousands of tasks makes small steps", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  await addTaskKeys({ engine, ring }, "lab", 1_199);
  await put(store, "lab", "task-1199", 1_199);
  await requestBuckets(store);
  const sizes: number[] = [];
  for (let state = "more"; state === "more"; ) {
    const done = await stepBuckets({ store, engine, ring });
    sizes.push(done.rewrapped);
    ({ state } = done);
  }
  expect(sizes.reduce((sum, size) => sum + size)).toBe(1_200 + 2);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(101);
  expect(await read((await openEncryption(engine, [first])).store, "lab", "task-1199")).toBe(1_199);
});

test("a rotation without a record, as an earlier version left it, is ended", async () => {
  const { store, ring } = await openEncryption(engine, [first]);
  await fill(store);
  const made = await ring.buckets.fresh(ownerOfTenant("lab"));
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(systemKeys.bucketKey("lab", 2), encodeBucket(made)),
  );
  expect(await rotateBuckets({ store, engine, ring })).toMatchObject({ state: "idle", rewrapped: 0 });
  const { inRotation } = await rewrapBuckets({ engine, ring, guard });
  expect(inRotation).toBe(1);
  expect(await rotateBuckets({ store, engine, ring, isOpen: true })).toMatchObject({
    ...{ state: "idle", rewrapped: 20 },
  });
  expect(await bucketsOf("lab")).toHaveLength(1);
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
  expect(await rewrapBuckets({ engine, ring: fresh.ring, guard })).toMatchObject({
    ...{ rewrapped: 3, others: 0, damaged: 1 },
  });
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
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({ rotations_pending: 1 });
  expect((await stepBuckets({ store, engine, ring })).record).toMatchObject({
    phase: "wrapping",
    rotation: 1,
  });
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    tenants_in_rotation: 4,
    rotations_pending: 0,
  });
  expect(await rotateBuckets({ store, engine, ring })).toMatchObject({ state: "idle" });
  expect(await readEncryptionStatus(store, { ring })).toMatchObject({
    tenants_in_rotation: 0,
    bucket_keys: 4,
  });
  expect(await rotateBuckets({ store, engine, ring })).toMatchObject({ steps: 1, rewrapped: 0 });
  await requireAll((await openEncryption(engine, [first])).store);
});

test("a store that is not encrypted has no keys to rotate", async () => {
  const repository = repositoryOn(engine, { format: await openFormat(engine) });
  await expect(repository.encryption.rotate(OPERATOR)).rejects.toMatchObject({ code: "CONFLICT" });
});
