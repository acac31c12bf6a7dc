import { afterEach, beforeEach, expect, test } from "vitest";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import { readEncryptionState } from "../../../../shared/records/encryption/encryption-state.ts";
import {
  type ConversionStep,
  stepConversion,
} from "../../../../shared/records/encryption/jobs/conversion.ts";
import { BUCKET_KEYS_KEPT_MS } from "../../../../shared/records/encryption/keys/bucket-keys.ts";
import { fleetLayout } from "../../../../shared/records/encryption/layout.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { sealedWith, UNREADABLE } from "../../../../shared/records/encryption/sealed-value.ts";
import { UnreadableValue } from "../../../../shared/records/kv/codec.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { supersedeAll } from "../../../../shared/records/restored/restored-store.ts";
import { KEY_SPACE } from "../../../../shared/store/limits.ts";
import type { Bytes, KeyValue, Store } from "../../../../shared/store/store.ts";
import { convertStore, indexStore } from "../../../harness/encryption/conversion.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { create, input, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";

const root = rootKey();
const LOOK = { label: "test", deadlineMs: 20_000 } as const;
const guard = async () => {};
let place: TestRecords;

beforeEach(async () => {
  place = await openTestRecords("lmdb");
});
afterEach(() => place.close());

async function allRows(store: Store): Promise<KeyValue[]> {
  const rows: KeyValue[] = [];
  for (let begin = KEY_SPACE.begin; ; ) {
    const page = await store.read(LOOK, (reader) =>
      reader.getRange({ begin, end: KEY_SPACE.end }, { limit: 5_000 }),
    );
    rows.push(...page.rows);
    const last = page.rows.at(-1);
    if (!page.more || last === undefined) return rows;
    begin = Buffer.concat([last.key, Buffer.of(0)]);
  }
}
const plainRows = async (store: Store) =>
  (await allRows(store)).filter(({ key, value }) => fleetLayout(key) !== null && sealedWith(value) === null);

const step = (store: Store): Promise<ConversionStep> =>
  stepConversion({ engine: place.store, store, guard, nowMs: Date.now() });

async function repositoryOf(store: Store): Promise<CheckpointRepository> {
  const format = await openFormat(store);
  const onCorrupt = (task: string) => expect.fail(`a checkpoint of ${task} is corrupt`);
  return new CheckpointRepository({
    store,
    format,
    finder: "test",
    now: Date.now,
    policies: DEFAULT_POLICIES,
    onCorrupt,
  });
}

const found = async (repository: CheckpointRepository, text: string) =>
  (await repository.search("default", { text, limit: 100 })).checkpoints.map(
    ({ execution_state }) => execution_state.goal,
  );

test("a plain store is converted while it is used, in steps that any instance continues", async () => {
  for (let n = 0; n < 30; n += 1)
    await create(place.repository, { task: `old-${n}`, checkpoint: input({ goal: `canary${n} shared` }) });
  await indexStore(place.store);
  const older = await plainRows(place.store);
  expect(older.length).toBeGreaterThan(150);
  const { store } = await openEncryption(place.store, [root]);
  const repository = await repositoryOf(store);
  // Old rows are read, and new ones are encrypted.
  expect(await found(repository, "canary7")).toEqual(["canary7 shared"]);
  await create(repository, { task: "new", checkpoint: input({ goal: "canary-new shared" }) });
  expect((await step(store)).converted).toBeGreaterThan(0);
  await create(repository, { task: "old-3", checkpoint: input({ goal: "canary-later shared" }) });
  // Another instance, after a kill of the first one.
  const second = (await openEncryption(place.store, [root])).store;
  await convertStore(place.store, second);
  await indexStore(second);
  expect(await plainRows(place.store)).toEqual([]);
  expect(await store.read(LOOK, readEncryptionState)).toMatchObject({ state: "complete", found: 0 });
  for (const opened of [store, second]) {
    const records = await repositoryOf(opened);
    expect(await found(records, "canary7")).toEqual(["canary7 shared"]);
    expect(await found(records, "shared")).toHaveLength(32);
  }
  const raw = (await allRows(place.store)).map(
    ({ key, value }) => `${Buffer.from(key).toString("latin1")}${Buffer.from(value).toString("latin1")}`,
  );
  expect(raw.filter((row) => row.includes("canary"))).toEqual([]);
  expect((await step(store)).state).toBe("complete");
});

test("a plain row is read before the end of the conversion, and is damage after it", async () => {
  await create(place.repository, { task: "t1" });
  const key = tenantKeys("default").task("t1");
  const head = (await place.store.read(LOOK, (reader) => reader.get(key)))!;
  const { store } = await openEncryption(place.store, [root]);
  expect(await store.read(LOOK, (reader) => reader.get(key))).toEqual(head);
  await convertStore(place.store, store);
  await place.store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.set(key, head));
  const repository = await repositoryOf(store);
  await expect(repository.task("default", "t1")).rejects.toMatchObject({ code: "CORRUPT" });
});

test("one transaction writes the plain rows of many tasks that it has read as a range, or has not read", async () => {
  const keys = tenantKeys("default");
  const names = Array.from({ length: 30 }, (_, n) => `old-${n}`);
  const heads = names.map((name) => keys.task(name)).sort(Buffer.compare);
  const write = { ...LOOK, onUnknown: "safe" } as const;
  await openFormat(place.store);
  await place.store.transact(write, async (tx) => {
    for (const key of heads) tx.set(key, Buffer.from("plain"));
  });
  const { store } = await openEncryption(place.store, [root]);
  let runs = 0;
  await store.transact(write, async (tx) => {
    runs += 1;
    const { rows } = await tx.getRange(keys.tasks(), { limit: 100 });
    expect(rows).toHaveLength(heads.length);
    for (const { key, value } of rows) tx.set(key, Buffer.concat([value, Buffer.from(" 2")]));
  });
  // The first run misses the bucket key of the tenant.
  expect(runs).toBe(2);
  expect(await plainRows(place.store)).toEqual([]);
  // Another service, which knows no key of these tasks, and new tasks.
  const second = (await openEncryption(place.store, [root])).store;
  const fresh = names.map((name) => keys.task(`new-${name}`));
  await second.transact(write, async (tx) => {
    for (const key of [...heads, ...fresh]) tx.set(key, Buffer.from("written"));
  });
  const values = await store.read(LOOK, (reader) => reader.getMany([...heads, ...fresh]));
  expect(values.map((value) => Buffer.from(value!).toString())).toEqual(Array(60).fill("written"));
});

const raw = (key: Bytes) => place.store.read(LOOK, (reader) => reader.get(key));
const writeRaw = (key: Bytes, value: Bytes) =>
  place.store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.set(key, value));

test("a restore of plain rows supersedes all tasks while they are being converted", async () => {
  for (let n = 0; n < 60; n += 1) await create(place.repository, { task: `old-${n}` });
  const { store } = await openEncryption(place.store, [root]);
  const nowMs = Date.now();
  const backupAt = new Date(nowMs).toISOString();
  const actor = { id: "olga", type: "human" } as const;
  expect(await supersedeAll(store, { backupAt, nowMs, actor })).toMatchObject({ tasks: 60, damaged: 0 });
  await convertStore(place.store, store);
  expect(await plainRows(place.store)).toEqual([]);
});

test("while the keys of the system cannot be unwrapped no plain row is believed, and afterwards it is converted", async () => {
  await create(place.repository, { task: "t1" });
  const key = tenantKeys("default").task("t1");
  const head = (await raw(key))!;
  let now = 0;
  const { store } = await openEncryption(place.store, [root], { now: () => now });
  const sound = (await raw(systemKeys.systemDataKeys()))!;
  await writeRaw(systemKeys.systemDataKeys(), Buffer.from("damaged"));
  // So that the keys are read again.
  now += BUCKET_KEYS_KEPT_MS;
  expect(await store.read(LOOK, (reader) => reader.get(key))).toEqual(UNREADABLE);
  await expect(step(store)).rejects.toBeInstanceOf(UnreadableValue);
  await writeRaw(systemKeys.systemDataKeys(), sound);
  expect(await store.read(LOOK, (reader) => reader.get(key))).toEqual(head);
  await convertStore(place.store, store);
  expect(await store.read(LOOK, (reader) => reader.get(key))).toEqual(head);
  expect(await plainRows(place.store)).toEqual([]);
});

test("the conversion never writes over a plain row that counts as damaged", async () => {
  await create(place.repository, { task: "t1" });
  const key = tenantKeys("default").task("t1");
  const head = (await raw(key))!;
  const { store } = await openEncryption(place.store, [root]);
  const converting = (await raw(systemKeys.encryption()))!;
  await convertStore(place.store, store);
  await writeRaw(key, head);
  expect(await store.read(LOOK, (reader) => reader.get(key))).toEqual(UNREADABLE);
  // As if from an older copy: the store has seen the end of the conversion, and no longer believes the row.
  await writeRaw(systemKeys.encryption(), converting);
  await expect(convertStore(place.store, store)).rejects.toBeInstanceOf(UnreadableValue);
  expect(await raw(key)).toEqual(head);
});

test("the words of the index are blinded from the beginning in a new store", async () => {
  const { store } = await openEncryption((await openTestRecords("memory")).store, [root]);
  const repository = await repositoryOf(store);
  await create(repository, { task: "t1", checkpoint: input({ goal: "canary" }) });
  await create(repository, { task: "t1", tenant: "clinic", checkpoint: input({ goal: "canary" }) });
  await indexStore(store);
  expect(await found(repository, "CANARY")).toEqual(["canary"]);
  expect(await found(repository, "other")).toEqual([]);
  const terms = async (tenant: string) => {
    const { rows } = await store.read(LOOK, (reader) =>
      reader.getRange(tenantKeys(tenant).words(), { limit: 100 }),
    );
    return rows.map(({ key }) => Buffer.from(key).toString("latin1"));
  };
  expect((await terms("default")).some((key) => key.includes("canary"))).toBe(false);
  // The same words have other names in another tenant.
  const ends = (keys: string[]) => keys.map((key) => key.slice(-30));
  const [own, other] = [ends(await terms("default")), ends(await terms("clinic"))];
  expect(own.length).toBeGreaterThan(3);
  expect(own.filter((end) => other.includes(end))).toEqual([]);
});
