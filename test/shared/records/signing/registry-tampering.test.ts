/** Attacks of a program that can write to the store on the registry of signing keys, each found by the scrub. */
import { expect, test } from "vitest";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { systemKeys } from "../../../../shared/records/kv/keyspace.ts";
import { decodeSigningKey, signaturesRequiredKey } from "../../../../shared/records/signing/key-record.ts";
import {
  addSigningKey,
  type Revocation,
  requestRotation,
  revokeSigningKey,
  serviceActor,
} from "../../../../shared/records/signing/key-registry.ts";
import { create } from "../../../harness/records/records.ts";
import {
  newKey,
  openSignedRecords,
  register,
  repositoryOn,
  storeOfThief,
  storeSignedBy,
  WRITING,
} from "../../../harness/records/signed.ts";
import { revokedByOther, TamperedStore } from "./tampered-store.ts";

const HOUR_MS = 3_600_000;

const attacked = new TamperedStore();
const { now, read, write, codes } = attacked;
const open = (options?: { isRegistered: boolean }) => attacked.open(options);
const revoke = (revocation: Partial<Revocation> = {}) => revokedByOther(attacked.records, revocation, now);

test("the requirement of signatures is removed, or stated without an entry", async () => {
  await open();
  await write([[signaturesRequiredKey(), null]]);
  expect(await codes()).toEqual(["key_record"]);
  await write([[signaturesRequiredKey(), encodeChecked(2)]]);
  expect(await codes()).toEqual(["key_record"]);
});

test("a store with data does not require signatures, and its keys may not be changed without one", async () => {
  await open({ isRegistered: false });
  const unsigned = repositoryOn(attacked.records.raw, attacked.records, now);
  await create(unsigned);
  await register(attacked.records.store, attacked.records.key, now());
  expect(await attacked.records.repository.signingKeys.list()).toMatchObject({ signatures_required: false });
  const change = { actor: serviceActor("test"), nowMs: now() };
  await expect(register(attacked.records.raw, newKey(), now())).rejects.toMatchObject({ code: "CONFLICT" });
  const revocation = { keyId: attacked.records.key.id, since: undefined, reason: "lost" } as const;
  const revoking = attacked.records.raw.transact(WRITING, (tx) => revokeSigningKey(tx, revocation, change));
  await expect(revoking).rejects.toMatchObject({ code: "CONFLICT" });
  expect(await codes()).toEqual([]);
});

test("a key is registered without an audit entry", async () => {
  await open();
  const thief = newKey();
  const twin = await openSignedRecords("memory", now, { isRegistered: false });
  await register(storeSignedBy(twin.raw, thief), thief, now());
  const row = await twin.raw.read(WRITING, (reader) => reader.get(systemKeys.signingKey(thief.id)));
  await twin.close();
  await write([[systemKeys.signingKey(thief.id), row!]]);
  await create(repositoryOn(storeOfThief(attacked.records.raw, thief), attacked.records, now));
  expect(await codes()).toEqual(["key_record"]);
});

test("a revocation is removed from the registry", async () => {
  await open();
  await create(attacked.records.repository);
  const row = (await read(systemKeys.signingKey(attacked.records.key.id)))!;
  const { id } = attacked.records.key;
  attacked.records = await revoke({ reason: "lost" });
  expect(decodeSigningKey((await read(systemKeys.signingKey(id)))!).revoked_reason).toBe("lost");
  expect(await codes()).toEqual([]);
  await write([[systemKeys.signingKey(id), row]]);
  expect(await codes()).toEqual(["key_record"]);
});

test("any fact of a key is changed in the registry", async () => {
  await open();
  const successor = newKey();
  await attacked.records.store.transact(WRITING, (tx) =>
    addSigningKey(tx, successor, {
      actor: serviceActor("writer"),
      nowMs: now(),
      replaces: attacked.records.key.id,
    }),
  );
  attacked.records = await revoke({ reason: "lost", keyId: successor.id });
  const key = systemKeys.signingKey(successor.id);
  const row = (await read(key))!;
  expect(await codes()).toEqual([]);
  for (const change of [
    { owner: "reader" },
    { purpose: "tree" },
    { replaces: null },
    { not_before: new Date(0).toISOString() },
    { revoked_reason: "replaced" },
    { revoked_reason: null },
    { revoked_at: new Date(attacked.nowMs + HOUR_MS).toISOString() },
    { not_after: new Date(attacked.nowMs).toISOString() },
  ] as const) {
    await write([[key, encodeChecked({ ...decodeSigningKey(row), ...change })]]);
    expect({ change, codes: await codes() }).toEqual({ change, codes: ["key_record"] });
  }
});

test("a requested rotation is taken back, made up, or given another time", async () => {
  await open();
  const key = systemKeys.signingKey(attacked.records.key.id);
  const before = (await read(key))!;
  const change = { actor: serviceActor("test"), nowMs: now() };
  await attacked.records.store.transact(WRITING, (tx) =>
    requestRotation(tx, attacked.records.key.id, change),
  );
  const requested = (await read(key))!;
  expect(await codes()).toEqual([]);
  for (const forged of [
    before,
    encodeChecked({ ...decodeSigningKey(requested), rotation_requested_at: new Date(0).toISOString() }),
    encodeChecked({ ...decodeSigningKey(requested), rotation_requested_at: null }),
  ]) {
    await write([[key, forged]]);
    expect(await codes()).toEqual(["key_record"]);
  }
  await open();
  const other = systemKeys.signingKey(attacked.records.key.id);
  const record = decodeSigningKey((await read(other))!);
  await write([[other, encodeChecked({ ...record, rotation_requested_at: new Date(now()).toISOString() })]]);
  expect(await codes()).toEqual(["key_record"]);
});

test("a damaged record hides no other key, and is found", async () => {
  await open();
  const { id } = attacked.records.key;
  attacked.records = await revoke({ reason: "lost" });
  await write([[systemKeys.signingKey(id), Uint8Array.of(0xc1)]]);
  const { keys: listed } = await attacked.records.repository.signingKeys.list();
  expect(listed).toHaveLength(1);
  expect(await codes()).toContain("key_record");
});

test("a key is registered a second time, without its revocation", async () => {
  await open();
  const other = newKey();
  const store = storeSignedBy(attacked.records.raw, other);
  await register(store, other, now());
  await write([[systemKeys.signingKey(attacked.records.key.id), null]]);
  await register(attacked.records.store, attacked.records.key, now());
  attacked.records = { ...attacked.records, store, repository: repositoryOn(store, attacked.records, now) };
  expect(await codes()).toEqual(["key_record"]);
});

test("a key cannot revoke itself", async () => {
  await open();
  const change = { actor: serviceActor("test"), nowMs: now() };
  const own = { keyId: attacked.records.key.id, since: undefined, reason: "lost" } as const;
  const revoking = attacked.records.store.transact(WRITING, (tx) => revokeSigningKey(tx, own, change));
  await expect(revoking).rejects.toMatchObject({ code: "UNAVAILABLE" });
});
