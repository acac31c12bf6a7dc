/** The job of the watchdogs that converts rows and rotates keys. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { startEncryptor } from "../../../../services/watchdog/encryption/encryptor.ts";
import {
  KeyEncryptionError,
  type KeyEncryptionKey,
} from "../../../../shared/integrity/encryption/key-encryption-key.ts";
import { readEncryptionStatus } from "../../../../shared/records/encryption/encryption-status.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { sealedWith } from "../../../../shared/records/encryption/sealed-value.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { indexStore } from "../../../harness/encryption/conversion.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create, OPERATOR, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

const LIMIT = { timeout: 30_000 };
let place: TestRecords;

beforeEach(async () => {
  place = await openTestRecords("lmdb");
});
afterEach(() => place.close());

async function acts(store: Store): Promise<string[]> {
  const repository = repositoryOn(store, { format: await openFormat(store) });
  const from = { from_seq: 1, limit: 100, signatures: false };
  const { entries } = await repository.tenantActs.page("default", from);
  return entries.map(({ entry }) => JSON.parse(entry).action);
}

test("while an old root key cannot be used, rows are converted and no rotation is recorded", async () => {
  await create(place.repository, { task: "t1" });
  const key = tenantKeys("default").task("t1");
  const row = async () => (await place.store.read({ label: "test", deadlineMs: 20_000 }, (r) => r.get(key)))!;
  const [first, second] = [rootKey(), rootKey()];
  await openEncryption(place.store, [first]);
  let [asked, isDown] = [0, false];
  const flaky: KeyEncryptionKey = {
    ...first,
    unwrap: async (wrapped, context) => {
      asked += 1;
      if (isDown) throw new KeyEncryptionError("unavailable", "the server of the key is down");
      return first.unwrap(wrapped, context);
    },
  };
  const { store, ring } = await openEncryption(place.store, [second, flaky]);
  expect(sealedWith(await row())).toBeNull();
  [asked, isDown] = [0, true];
  const stop = startEncryptor({
    ...{ store, encryption: { engine: place.store, ring }, clock: systemClock, log: testLog },
    leases: createLeaderLeases(store, "watchdog", Date.now),
    metrics: createMetrics(),
  });
  try {
    await expect.poll(async () => sealedWith(await row()), LIMIT).not.toBeNull();
    await expect.poll(() => asked, LIMIT).toBeGreaterThan(1);
    expect(await acts(store)).not.toContain("encryption_rewrap");
    isDown = false;
    const others = async () => (await readEncryptionStatus(store, { ring })).bucket_keys_of_other_roots;
    await expect.poll(others, LIMIT).toBe(0);
    expect((await acts(store)).filter((action) => action === "encryption_rewrap")).toHaveLength(1);
  } finally {
    await stop();
  }
}, 120_000);

test("a requested rotation is carried out, and damaged keys are counted and left", async () => {
  const root = rootKey();
  const { store, ring } = await openEncryption(place.store, [root]);
  const repository = repositoryOn(store, place);
  for (const task of ["t1", "t2", "t3"]) await create(repository, { task });
  const key = tenantKeys("default").dataKeys("t2");
  await place.store.transact({ label: "test", deadlineMs: 20_000, onUnknown: "safe" }, async (tx) => {
    const damaged = Buffer.from((await tx.get(key))!);
    damaged[damaged.length - 1]! ^= 1;
    tx.set(key, damaged);
  });
  await repository.encryption.rotate(OPERATOR);
  const metrics = createMetrics();
  const stop = startEncryptor({
    ...{ store, encryption: { engine: place.store, ring }, clock: systemClock, log: testLog, metrics },
    leases: createLeaderLeases(store, "watchdog", Date.now),
  });
  try {
    const status = () => readEncryptionStatus(store, { ring });
    await expect.poll(async () => (await status()).rotation_retry_at, LIMIT).not.toBeNull();
    expect(await status()).toMatchObject({
      ...{ data_keys_damaged: 1, tenants_unavailable: 0, rotations_pending: 0, tenants_in_rotation: 1 },
      // One of the system, and two of the tenant with the damaged key.
      bucket_keys: 3,
    });
    const counted = async () =>
      (await metrics.encryptionKeysDamaged.get()).values.map(({ labels, value }) => [labels.kind, value]);
    await expect.poll(counted, LIMIT).toContainEqual(["data", 1]);
    expect(await repository.task("default", "t3")).toMatchObject({ seq: 1 });
  } finally {
    await stop();
  }
}, 120_000);

test("a damaged audit chain takes no statement, and the rows of the store count as encrypted", async () => {
  await create(place.repository, { task: "t1" });
  const head = tenantKeys("default").tenantChain();
  const put = (value: Uint8Array) =>
    place.store.transact({ label: "test", deadlineMs: 20_000, onUnknown: "safe" }, async (tx) =>
      tx.set(head, value),
    );
  await put(Buffer.from("damaged"));
  await indexStore(place.store);
  const { store, ring } = await openEncryption(place.store, [rootKey()]);
  const metrics = createMetrics();
  const warned: unknown[] = [];
  const log: typeof testLog = Object.create(testLog, {
    warn: { value: (fields: object) => void warned.push(fields) },
  });
  const stop = startEncryptor({
    ...{ store, encryption: { engine: place.store, ring }, clock: systemClock, log, metrics },
    leases: createLeaderLeases(store, "watchdog", Date.now),
  });
  try {
    const complete = async () => {
      // As the indexer of a watchdog does.
      await indexStore(store);
      return (await metrics.encryptionComplete.get()).values[0]?.value;
    };
    await expect.poll(complete, { timeout: 60_000 }).toBe(1);
    await expect
      .poll(() => warned, LIMIT)
      .toContainEqual(expect.objectContaining({ job: "statement that all rows are encrypted" }));
  } finally {
    await stop();
  }
}, 120_000);
