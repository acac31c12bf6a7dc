/** Attacks of a program that can write to the store on the registry of signing keys, each found by the scrub. */
import { afterEach, expect, test } from "vitest";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { systemKeys } from "../../../../shared/records/kv/keyspace.ts";
import { decodeSigningKey, signaturesRequiredKey } from "../../../../shared/records/signing/key-record.ts";
import {
  addSigningKey,
  type Revocation,
  revokeSigningKey,
  serviceActor,
} from "../../../../shared/records/signing/key-registry.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { create } from "../../../harness/records/records.ts";
import {
  newKey,
  openSignedRecords,
  register,
  repositoryOn,
  type SignedRecords,
  storeOfThief,
  storeSignedBy,
  WRITING,
} from "../../../harness/records/signed.ts";
import { overwrite, type Rows, revokedByOther, rowIn, signatureCodes } from "./tampered-store.ts";

const HOUR_MS = 3_600_000;

let records: SignedRecords;
let nowMs: number;
const now = () => nowMs;

afterEach(() => records.close());

async function open(): Promise<void> {
  nowMs = Date.now();
  records = await openSignedRecords("memory", now);
}

const read = (key: Bytes) => rowIn(records.raw, key);
const write = (rows: Rows) => overwrite(records.raw, rows);
const codes = () => signatureCodes(records, now);
const revoke = (revocation: Partial<Revocation> = {}) => revokedByOther(records, revocation, now);

test("the requirement of signatures is removed, or stated without an entry", async () => {
  await open();
  await write([[signaturesRequiredKey(), null]]);
  expect(await codes()).toEqual(["key_record"]);
  await write([[signaturesRequiredKey(), encodeChecked(2)]]);
  expect(await codes()).toEqual(["key_record"]);
});

test("a store with data does not require signatures, and its keys may not be changed without one", async () => {
  nowMs = Date.now();
  records = await openSignedRecords("memory", now, { isRegistered: false });
  const unsigned = repositoryOn(records.raw, records, now);
  await create(unsigned);
  await register(records.store, records.key, now());
  expect(await records.repository.signingKeys.list()).toMatchObject({ signatures_required: false });
  const change = { actor: serviceActor("test"), nowMs: now() };
  await expect(register(records.raw, newKey(), now())).rejects.toMatchObject({ code: "CONFLICT" });
  const revocation = { keyId: records.key.id, since: undefined, reason: "lost" } as const;
  const revoking = records.raw.transact(WRITING, (tx) => revokeSigningKey(tx, revocation, change));
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
  await create(repositoryOn(storeOfThief(records.raw, thief), records, now));
  expect(await codes()).toEqual(["key_record"]);
});

test("a revocation is removed from the registry", async () => {
  await open();
  await create(records.repository);
  const row = (await read(systemKeys.signingKey(records.key.id)))!;
  const { id } = records.key;
  records = await revoke({ reason: "lost" });
  expect(decodeSigningKey((await read(systemKeys.signingKey(id)))!).revoked_reason).toBe("lost");
  expect(await codes()).toEqual([]);
  await write([[systemKeys.signingKey(id), row]]);
  expect(await codes()).toEqual(["key_record"]);
});

test("any fact of a key is changed in the registry", async () => {
  await open();
  const successor = newKey();
  await records.store.transact(WRITING, (tx) =>
    addSigningKey(tx, successor, { actor: serviceActor("writer"), nowMs: now(), replaces: records.key.id }),
  );
  records = await revoke({ reason: "lost", keyId: successor.id });
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
    { revoked_at: new Date(nowMs + HOUR_MS).toISOString() },
    { not_after: new Date(nowMs).toISOString() },
  ] as const) {
    await write([[key, encodeChecked({ ...decodeSigningKey(row), ...change })]]);
    expect({ change, codes: await codes() }).toEqual({ change, codes: ["key_record"] });
  }
});

test("a damaged record hides no other key, and is found", async () => {
  await open();
  const { id } = records.key;
  records = await revoke({ reason: "lost" });
  await write([[systemKeys.signingKey(id), Uint8Array.of(0xc1)]]);
  const { keys: listed } = await records.repository.signingKeys.list();
  expect(listed).toHaveLength(1);
  expect(await codes()).toContain("key_record");
});

test("a key is registered a second time, without its revocation", async () => {
  await open();
  const other = newKey();
  const store = storeSignedBy(records.raw, other);
  await register(store, other, now());
  await write([[systemKeys.signingKey(records.key.id), null]]);
  await register(records.store, records.key, now());
  records = { ...records, store, repository: repositoryOn(store, records, now) };
  expect(await codes()).toEqual(["key_record"]);
});

test("a key cannot revoke itself", async () => {
  await open();
  const change = { actor: serviceActor("test"), nowMs: now() };
  const own = { keyId: records.key.id, since: undefined, reason: "lost" } as const;
  const revoking = records.store.transact(WRITING, (tx) => revokeSigningKey(tx, own, change));
  await expect(revoking).rejects.toMatchObject({ code: "UNAVAILABLE" });
});
