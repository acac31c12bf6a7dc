/** A program that can write to the disk puts back the record of a time when rows were still plain, and adds plain rows of its own. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { appendTenantAudit } from "../../../../shared/records/audit/tenant-audit.ts";
import { stateConversion } from "../../../../shared/records/encryption/conversion-statement.ts";
import {
  type EncryptionState,
  readEncryptionState,
} from "../../../../shared/records/encryption/encryption-state.ts";
import { stepConversion } from "../../../../shared/records/encryption/jobs/conversion.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { sealedWith } from "../../../../shared/records/encryption/sealed-value.ts";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import {
  acquireLease,
  LeaseLost,
  releaseLease,
  requireLease,
} from "../../../../shared/records/leader/lease.ts";
import type { Bytes, Store } from "../../../../shared/store/store.ts";
import { convertStore, indexStore } from "../../../harness/encryption/conversion.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { create, input, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { newKey, register, repositoryOn, storeSignedBy } from "../../../harness/records/signed.ts";

const root = rootKey();
const LOOK = { label: "test", deadlineMs: 20_000 } as const;
const guard = async () => {};
let place: TestRecords;

beforeEach(async () => {
  place = await openTestRecords("lmdb");
});
afterEach(() => place.close());

const raw = (key: Bytes) => place.store.read(LOOK, (reader) => reader.get(key));
const put = (key: Bytes, value: Bytes) =>
  place.store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.set(key, value));

/** With the record of before the conversion. */
async function converted(): Promise<{ store: Store; before: Bytes }> {
  await create(place.repository, { task: "old", checkpoint: input({ goal: "canary" }) });
  await indexStore(place.store);
  const { store } = await openEncryption(place.store, [root]);
  const before = (await raw(systemKeys.encryption()))!;
  await convertStore(place.store, store);
  return { store, before };
}

async function acts(store: Store): Promise<Record<string, unknown>[]> {
  const repository = repositoryOn(store, { format: await openFormat(store) });
  const page = await repository.tenantActs.page("default", { from_seq: 1, limit: 100, signatures: false });
  return page.entries.map(({ entry }) => JSON.parse(entry));
}

const OLDER_COPY = { code: "CORRUPT", message: expect.stringContaining("older copy") };

test("an older record is refused at the start and by the conversion, and the scrub finds it", async () => {
  const { store, before } = await converted();
  expect(await stateConversion({ store, service: "watchdog", nowMs: Date.now(), guard })).toBe(true);
  expect(await stateConversion({ store, service: "watchdog", nowMs: Date.now(), guard })).toBe(false);
  expect(await acts(store)).toMatchObject([
    { action: "encryption_complete", actor: { id: "watchdog", type: "service" }, tenant: "default" },
  ]);
  const after = (await raw(systemKeys.encryption()))!;
  const { store: started } = await openEncryption(place.store, [root]);
  const scrubbed = async () => {
    const repository = repositoryOn(started, { format: await openFormat(started) });
    await scrub({ store: started, repository });
    return findingsOf(repository);
  };
  expect(await scrubbed()).toEqual([]);

  await put(systemKeys.encryption(), before);
  const forged = tenantKeys("default").task("forged");
  await put(forged, encodeChecked({ state: "forged" }));
  await expect(openEncryption(place.store, [root])).rejects.toMatchObject(OLDER_COPY);
  const step = () => stepConversion({ engine: place.store, store, guard, nowMs: Date.now() });
  await expect(step()).rejects.toMatchObject(OLDER_COPY);
  expect(sealedWith((await raw(forged))!)).toBeNull();
  // A service that started after the end does not look at the record again.
  const read = await started.read(LOOK, (reader) => reader.get(forged));
  expect(Buffer.from(read!).every((byte) => byte === 0xc1)).toBe(true);
  expect(JSON.stringify(await scrubbed())).toContain("states that all rows are encrypted");

  await put(systemKeys.encryption(), after);
  await place.store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.clear(forged));
  await openEncryption(place.store, [root]);
});

test("an older record of any place of a walk lets no plain row be encrypted", async () => {
  const plain = Array.from({ length: 1_100 }, (_, n) => tenantKeys("default").task(`task-${n}`));
  for (let from = 0; from < plain.length; from += 100)
    await place.store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => {
      for (const key of plain.slice(from, from + 100)) tx.set(key, encodeChecked({ state: "plain" }));
    });
  await indexStore(place.store);
  const { store } = await openEncryption(place.store, [root]);
  const step = () => stepConversion({ engine: place.store, store, guard, nowMs: Date.now() });
  const copies: { readonly row: Bytes; readonly state: EncryptionState }[] = [];
  for (let state = "more"; state !== "complete"; ) {
    const row = (await raw(systemKeys.encryption()))!;
    copies.push({ row, state: (await store.read(LOOK, readEncryptionState))! });
    ({ state } = await step());
    if (state === "waiting") await indexStore(store);
  }
  expect(copies.filter(({ state }) => state.done !== null && state.found > 0)).not.toEqual([]);
  expect(copies.filter(({ state }) => state.done !== null && state.found === 0)).not.toEqual([]);
  expect(await stateConversion({ store, service: "watchdog", nowMs: Date.now(), guard })).toBe(true);
  const after = (await raw(systemKeys.encryption()))!;

  // Behind the rows of all other tasks.
  const forged = tenantKeys("default").task("zzz-forged");
  await put(forged, encodeChecked({ state: "forged" }));
  for (const { row } of copies) {
    await put(systemKeys.encryption(), row);
    await expect(step()).rejects.toMatchObject(OLDER_COPY);
    expect(await raw(systemKeys.encryption())).toEqual(row);
    expect(sealedWith((await raw(forged))!)).toBeNull();
  }
  await put(systemKeys.encryption(), after);
  expect(await stateConversion({ store, service: "watchdog", nowMs: Date.now(), guard })).toBe(false);
  expect(await acts(store)).toHaveLength(1);
});

test("entries with a wrong time hide the statement of the end from none", async () => {
  const { store, before } = await converted();
  expect(await stateConversion({ store, service: "watchdog", nowMs: Date.now(), guard })).toBe(true);
  await store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => {
    const actor = { id: "watchdog", type: "service" } as const;
    const at = "2001-01-01T00:00:00.000Z";
    await appendTenantAudit(tx, "default", [{ action: "encryption_rotate", actor, at, subject: {} }]);
  });
  await put(systemKeys.encryption(), before);
  await expect(openEncryption(place.store, [root])).rejects.toMatchObject(OLDER_COPY);
});

test("a watchdog that lost its lease states nothing", async () => {
  const { store } = await converted();
  const wanted = { job: "encryption", nowMs: Date.now(), leaseMs: 10_000 } as const;
  const lost = (await acquireLease(store, { ...wanted, holder: "one" }))!;
  await releaseLease(store, lost);
  await acquireLease(store, { ...wanted, holder: "two" });
  const stating = {
    store,
    service: "watchdog",
    nowMs: Date.now(),
    guard: (tx: Parameters<typeof requireLease>[0]) => requireLease(tx, lost),
  };
  await expect(stateConversion(stating)).rejects.toBeInstanceOf(LeaseLost);
  expect(await acts(store)).toEqual([]);
});

test("a key that begins after the end of the conversion signs the statement", async () => {
  const { store } = await converted();
  const nowMs = Date.now() + 3_600_000;
  const key = newKey();
  const signed = storeSignedBy(store, key);
  await register(signed, key, nowMs);
  expect(await stateConversion({ store: signed, service: "watchdog", nowMs, guard })).toBe(true);
  const [entry] = (await acts(signed)).filter(({ action }) => action === "encryption_complete");
  const { completed_at } = (await signed.read(LOOK, readEncryptionState))!;
  expect(entry).toMatchObject({ at: new Date(nowMs).toISOString(), subject: { completed_at } });
});

test("a store that was encrypted from its beginning, and one whose rows are being converted, state nothing", async () => {
  await create(place.repository, { task: "old" });
  const { store } = await openEncryption(place.store, [root]);
  expect(await stateConversion({ store, service: "watchdog", nowMs: Date.now(), guard })).toBe(false);
  // Services start while rows are converted.
  await openEncryption(place.store, [root]);
  const empty = await openTestRecords("memory");
  await empty.store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.clear(systemKeys.meta("format")),
  );
  const { store: fresh } = await openEncryption(empty.store, [root]);
  expect(await stateConversion({ store: fresh, service: "watchdog", nowMs: Date.now(), guard })).toBe(false);
  await empty.close();
});
