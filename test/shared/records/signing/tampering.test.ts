/** Attacks of someone who can write to the store, each found by the scrub with its code. */
import { expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { entryHash } from "../../../../shared/integrity/chain.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Revocation } from "../../../../shared/records/signing/key-registry.ts";
import { decodeSignature, encodeSignature } from "../../../../shared/records/signing/signature-record.ts";
import { decodeHead, encodeHead } from "../../../../shared/records/task/head.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { create, input, send } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import {
  newKey,
  openSignedRecords,
  register,
  repositoryOn,
  storeOfThief,
  WRITING,
} from "../../../harness/records/signed.ts";
import { revokedByOther, TamperedStore } from "./tampered-store.ts";

const TASK = "task-1";
const HOUR_MS = 3_600_000;
const keys = tenantKeys("default");

const attacked = new TamperedStore();
const { now, read, write, codes } = attacked;
const open = (options?: { isRegistered: boolean }) => attacked.open(options);

/** Replaces the newest entry, and makes the chain fit again. */
async function forgeNewest(change: (entry: Record<string, unknown>) => void): Promise<void> {
  const head = decodeHead((await read(keys.task(TASK)))!);
  const entry = JSON.parse(decode<string>((await read(keys.audit(TASK, head.audit_seq)))!));
  change(entry);
  const text = canonicalText(entry);
  await write([
    [keys.audit(TASK, head.audit_seq), encode(text)],
    [keys.task(TASK), encodeHead({ ...head, audit_hash: entryHash(text) })],
  ]);
}

test("a sound store has no findings, and every entry is signed", async () => {
  await open();
  const { checkpoint_id } = await create(attacked.records.repository);
  await send(attacked.records.repository, "update", {
    checkpoint_id,
    patch: { execution_state: { goal: "more" } },
  });
  await send(attacked.records.repository, "handoff", {});
  const { pass } = await scrub(
    { store: attacked.records.raw, repository: attacked.records.repository },
    { now },
  );
  expect(await findingsOf(attacked.records.repository)).toEqual([]);
  expect(pass).toMatchObject({ unsigned_entries: 0 });
  expect(pass.audit_entries).toBeGreaterThanOrEqual(3);
  const { compliance } = await attacked.records.repository.get("default", checkpoint_id, undefined, {
    signature: true,
  });
  expect(compliance.signature).toMatchObject({ state: "valid", key_id: attacked.records.key.id });
  const first = await attacked.records.repository.get("default", checkpoint_id, 1, { signature: true });
  expect(first.compliance.signature).toMatchObject({ state: "valid" });
});

test("an entry is changed, and the chain fits again", async () => {
  await open();
  const { checkpoint_id } = await create(attacked.records.repository);
  await forgeNewest((entry) => {
    entry.actor = { id: "agent-2", type: "agent" };
  });
  expect(await codes()).toContain("signature_mismatch");
  const { compliance } = await attacked.records.repository.get("default", checkpoint_id, undefined, {
    signature: true,
  });
  expect(compliance.signature).toMatchObject({ state: "signature_mismatch" });
});

test("the name of the key is taken out of an entry, and the chain fits again", async () => {
  await open();
  await create(attacked.records.repository);
  await forgeNewest((entry) => {
    delete entry.signed_by;
  });
  expect(await codes()).toContain("signature_mismatch");
});

test("a signature is removed", async () => {
  await open();
  const { checkpoint_id } = await create(attacked.records.repository);
  await create(attacked.records.repository);
  await write([[keys.signature(TASK, 1), null]]);
  expect(await codes()).toEqual(["signature_missing"]);
  const { compliance } = await attacked.records.repository.get("default", checkpoint_id, undefined, {
    signature: true,
  });
  expect(compliance.signature).toMatchObject({ state: "signature_missing" });
});

test("a signature is moved to another entry of the task, and to another task", async () => {
  await open();
  await create(attacked.records.repository);
  const { checkpoint_id } = await create(attacked.records.repository);
  await create(attacked.records.repository, { task: "task-2" });
  const moved = (await read(keys.signature(TASK, 1)))!;
  await write([
    [keys.signature(TASK, 2), moved],
    [keys.signature("task-2", 1), moved],
  ]);
  expect(await codes()).toEqual(["signature_moved", "signature_moved"]);
  const { compliance } = await attacked.records.repository.get("default", checkpoint_id, undefined, {
    signature: true,
  });
  expect(compliance.signature).toMatchObject({ state: "signature_moved" });
});

test("a bit of a signature is changed", async () => {
  await open();
  await create(attacked.records.repository);
  const value = Uint8Array.from((await read(keys.signature(TASK, 1)))!);
  value[value.length - 1]! ^= 1;
  await write([[keys.signature(TASK, 1), value]]);
  expect(await codes()).toEqual(["signature_invalid"]);
});

test("concurrent commits share a signature, which is found in the place of another of its batch", async () => {
  await open();
  const { repository } = attacked.records;
  const tasks = ["task-1", "task-2", "task-3", "task-4", "task-5"];
  await Promise.all(tasks.map((task) => create(repository, { task })));
  const rows = await Promise.all(tasks.map((task) => read(keys.signature(task, 1))));
  const signatures = rows.map((row) => decodeSignature(row!)!);
  // The first 64 bytes are those of the batch.
  expect(
    new Set(signatures.map(({ signature }) => Buffer.from(signature.subarray(0, 64)).toString("hex"))),
  ).toHaveLength(1);
  expect(await codes()).toEqual([]);
  // Another statement's path, and its place.
  const { signature } = signatures[1]!;
  await write([[keys.signature(TASK, 1), encodeSignature({ ...signatures[0]!, signature })]]);
  expect(await codes()).toEqual(["signature_invalid"]);
});

/** All rows of the task, written again by someone else under the same ids. */
async function rewrite(storeOf: (raw: Store) => Store): Promise<void> {
  const { repository, raw } = attacked.records;
  const own = await create(repository, { checkpoint: input({ goal: "the truth" }) });
  const twin = await openSignedRecords("memory", now, { isRegistered: false });
  const forger = repositoryOn(storeOf(twin.raw), twin, now);
  await create(forger, { commandId: own.checkpoint_id, checkpoint: input({ goal: "another story" }) });
  const copied = [
    keys.checkpoint(TASK, own.checkpoint_id),
    keys.order(TASK, 1),
    keys.audit(TASK, 1),
    keys.task(TASK),
    keys.command(own.checkpoint_id),
  ];
  const rows = await twin.raw.read(WRITING, (reader) => reader.getMany([...copied, keys.signature(TASK, 1)]));
  await raw.transact(WRITING, async (tx) => {
    copied.forEach((key, i) => {
      tx.set(key, rows[i]!);
    });
    const signature = rows.at(-1);
    if (signature !== undefined) tx.set(keys.signature(TASK, 1), signature);
  });
  const found = await repository.get("default", own.checkpoint_id);
  expect(found.execution_state.goal).toBe("another story");
  await twin.close();
}

test("a task is written again without a signature", async () => {
  await open();
  await rewrite((raw) => raw);
  expect(await codes()).toContain("signature_mismatch");
});

test("a task is written again without any signature", async () => {
  await open();
  await rewrite((raw) => raw);
  await write([[keys.signature(TASK, 1), null]]);
  expect(await codes()).toContain("signature_missing");
});

test("a task is written again and signed with an unknown key", async () => {
  await open();
  await rewrite((raw) => storeOfThief(raw, newKey()));
  expect(await codes()).toContain("key_unknown");
});

test("entries are appended by a process without a key, with any time", async () => {
  await open();
  await create(attacked.records.repository);
  const { checkpoint_id } = await create(repositoryOn(attacked.records.raw, attacked.records, now));
  expect(await codes()).toEqual(["signature_missing"]);
  const { compliance } = await attacked.records.repository.get("default", checkpoint_id, undefined, {
    signature: true,
  });
  expect(compliance.signature).toEqual({ state: "signature_missing", key_id: null, signed_at: null });
  const plain = await attacked.records.repository.get("default", checkpoint_id);
  expect(plain.compliance).not.toHaveProperty("signature");
  await forgeNewest((entry) => {
    entry.at = "1969-12-31T23:59:59.999Z";
  });
  expect(await codes()).toContain("signature_missing");
});

test("the end of a trail is cut off, and the head fits again", async () => {
  await open();
  await create(attacked.records.repository);
  const head = (await read(keys.task(TASK)))!;
  const { checkpoint_id } = await create(attacked.records.repository);
  await write([
    [keys.task(TASK), head],
    [keys.audit(TASK, 2), null],
    [keys.order(TASK, 2), null],
    [keys.checkpoint(TASK, checkpoint_id), null],
    [keys.id(checkpoint_id), null],
    [keys.command(checkpoint_id), null],
  ]);
  expect(await codes()).toContain("entry_missing");
});

const revoke = (revocation: Partial<Revocation> = {}) => revokedByOther(attacked.records, revocation, now);

test("a key signs after its revocation, and its older signatures stay valid", async () => {
  await open();
  const before = await create(attacked.records.repository);
  const thief = repositoryOn(storeOfThief(attacked.records.raw, attacked.records.key), attacked.records, now);
  attacked.records = await revoke();
  attacked.nowMs += HOUR_MS;
  const after = await create(thief);
  expect(await codes()).toEqual(["key_revoked"]);
  const stateOf = async (id: string) =>
    (await attacked.records.repository.get("default", id, undefined, { signature: true })).compliance
      .signature;
  expect(await stateOf(before.checkpoint_id)).toMatchObject({ state: "valid" });
  expect(await stateOf(after.checkpoint_id)).toMatchObject({ state: "key_revoked" });
});

test("a key appends an entry with a time before its revocation", async () => {
  await open();
  await create(attacked.records.repository);
  const since = new Date(attacked.nowMs + 1).toISOString();
  const thief = repositoryOn(storeOfThief(attacked.records.raw, attacked.records.key), attacked.records, now);
  attacked.records = await revoke({ since });
  attacked.nowMs += HOUR_MS;
  await create(attacked.records.repository);
  attacked.nowMs -= HOUR_MS;
  const { checkpoint_id } = await create(thief);
  attacked.nowMs += HOUR_MS;
  expect(await codes()).toEqual(["time_contradicted"]);
  const { compliance } = await attacked.records.repository.get("default", checkpoint_id, undefined, {
    signature: true,
  });
  expect(compliance.signature).toMatchObject({ state: "time_contradicted" });
});

test("a revocation since an earlier time rejects the signatures since then", async () => {
  await open();
  await create(attacked.records.repository);
  const since = new Date(attacked.nowMs + 1).toISOString();
  attacked.nowMs += HOUR_MS;
  await create(attacked.records.repository);
  attacked.records = await revoke({ since });
  expect(await codes()).toEqual(["key_revoked"]);
});

test("a service does not commit with a revoked key", async () => {
  await open();
  const { repository } = attacked.records;
  attacked.records = await revoke();
  await expect(create(repository)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(await codes()).toEqual([]);
});

test("an entry of the operators is changed, and a signature of theirs removed", async () => {
  await open();
  await attacked.records.repository.startScrub({ tenant: "default", caller: "human=olga" });
  expect(await codes()).toEqual([]);
  await write([[keys.signature(null, 1), null]]);
  expect(await codes()).toEqual(["signature_missing"]);
});

test("entries from before the first key are unsigned, and no damage", async () => {
  await open({ isRegistered: false });
  const unsigned = repositoryOn(attacked.records.raw, attacked.records, now);
  const { checkpoint_id } = await create(unsigned);
  await register(attacked.records.store, attacked.records.key, now());
  await create(attacked.records.repository);
  const { pass } = await scrub(
    { store: attacked.records.raw, repository: attacked.records.repository },
    { now },
  );
  expect(pass).toMatchObject({ unsigned_entries: 1, findings: 0 });
  const { compliance } = await attacked.records.repository.get("default", checkpoint_id, undefined, {
    signature: true,
  });
  expect(compliance).not.toHaveProperty("signature");
});
