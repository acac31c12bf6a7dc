/** Electronic signatures in the store: what keeps a signed checkpoint, and what the scrub finds after an attack on the store. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { decodeChecked, encode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { esignBody, signedBody, statementOf } from "../../../harness/esign/signed-statement.ts";
import { create, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { WRITING } from "../../../harness/records/signed.ts";

const PERSON = { agent: "human=ada" };
const keys = tenantKeys("default");
let records: TestRecords;
let id: string;
let seq: number;

beforeEach(async () => {
  records = await openTestRecords("lmdb");
  id = (await create(records.repository)).checkpoint_id;
  const answer = await send(
    records.repository,
    "signature_add",
    await esignBody(records.repository, { task: "task-1" }),
    PERSON,
  );
  expect(answer).toMatchObject({ checkpoint_id: id, version: 1, audit_seq: 2 });
  seq = answer.audit_seq;
});
afterEach(() => records.close());

const states = async (task = "task-1") =>
  (
    await records.repository.esignatures.list("default", { task_id: task, from_seq: 1, limit: 50 })
  ).signatures.map(({ state }) => state);

async function found(): Promise<string[]> {
  await scrub(records);
  return (await findingsOf(records.repository)).map(({ kind, details }) => `${kind}: ${details}`);
}

const write = (rows: readonly [Bytes, Bytes | null][]) =>
  records.store.transact(WRITING, async (tx) => {
    for (const [key, value] of rows) {
      if (value === null) tx.clear(key);
      else tx.set(key, value);
    }
  });

const stored = async () =>
  decodeChecked<{ signed: { payload: string; proof: Record<string, unknown> } }>(
    (await records.store.read({ label: "test", deadlineMs: 5_000 }, (reader) =>
      reader.get(keys.esignature("task-1", seq)),
    ))!,
  );

test("a sound signature is valid, and no finding", async () => {
  expect(await states()).toEqual(["valid"]);
  expect(await found()).toEqual([]);
});

test("a signed checkpoint stays at any age", async () => {
  for (let n = 0; n < 5; n += 1) await create(records.repository);
  const removal = send(records.repository, "remove", { checkpoint_id: id, keep: 1 }, PERSON);
  await expect(removal).rejects.toMatchObject({ code: "CONFLICT", details: { reason: "signed" } });
});

test("a signature is lost, edited, or hidden", async () => {
  const [row] = [await stored()];
  const { checkpoint_id, version } = row as unknown as { checkpoint_id: string; version: number };
  const statement = await statementOf(records.repository, { task: "task-1" });
  const other = await signedBody({ ...statement, meaning: "review" });
  const payload_type = "application/vnd.fleet.esign.v1+json";

  await write([
    [
      keys.esignature("task-1", seq),
      encodeChecked({ checkpoint_id, version, signed: { ...other, payload_type } }),
    ],
  ]);
  expect(await states()).toEqual(["not_recorded"]);
  expect(await found()).toContainEqual(expect.stringContaining("esignature: not_recorded"));

  await write([[keys.esignature("task-1", seq), encode("damaged")]]);
  expect(await states()).toEqual(["statement_invalid"]);
  expect(await found()).toContainEqual(expect.stringContaining("esignature: statement_invalid"));

  await write([[keys.esignature("task-1", seq), null]]);
  expect(await found()).toContainEqual(
    expect.stringContaining("records an electronic signature that is lost"),
  );
});

test("a damaged row of the list does not end the protection", async () => {
  for (let n = 0; n < 5; n += 1) await create(records.repository);
  const { begin, end } = keys.esignedOf("task-1", id);
  await records.store.transact(WRITING, async (tx) => {
    for (const { key } of (await tx.getRange({ begin, end }, { limit: 9 })).rows)
      tx.set(key, encode("damaged"));
  });
  const removal = send(records.repository, "remove", { checkpoint_id: id, keep: 1 }, PERSON);
  await expect(removal).rejects.toMatchObject({ code: "CONFLICT", details: { reason: "signed" } });
  expect(await found()).toContainEqual(expect.stringContaining("is not listed with its version"));
});

test("a signature is taken from the list of its version", async () => {
  const { end, begin } = keys.esignedOf("task-1", id);
  await records.store.transact(WRITING, async (tx) => tx.clearRange({ begin, end }));
  expect(await states()).toEqual([]);
  expect(await found()).toContainEqual(expect.stringContaining("is not listed with its version"));
});

test("a signature is copied to another task", async () => {
  const other = await create(records.repository, { task: "task-2" });
  const value = encodeChecked({ ...(await stored()), checkpoint_id: other.checkpoint_id });
  await write([
    [keys.esignature("task-2", 1), value],
    [keys.esigned("task-2", other.checkpoint_id, "0".repeat(64)), encodeChecked([other.checkpoint_id, 1, 1])],
  ]);
  expect(await states("task-2")).toEqual(["moved"]);
  expect(await found()).toContainEqual(
    expect.stringContaining("an electronic signature is stored for entry 1, which records none"),
  );
});

test("a signature is moved to another checkpoint, or another version, of its task", async () => {
  const other = await create(records.repository);
  await send(records.repository, "update", {
    checkpoint_id: id,
    patch: { execution_state: { current_focus: "the rest" } },
  });
  const row = await stored();
  for (const [checkpoint_id, version] of [
    [other.checkpoint_id, 1],
    [id, 2],
  ] as const) {
    await write([
      [keys.esignature("task-1", seq), encodeChecked({ ...row, checkpoint_id, version })],
      [keys.esigned("task-1", checkpoint_id, "0".repeat(64)), encodeChecked([checkpoint_id, version, seq])],
    ]);
    const listed = { task_id: "task-1", checkpoint_id, version, from_seq: 1, limit: 50 };
    const { signatures } = await records.repository.esignatures.list("default", listed);
    expect(signatures.map(({ state }) => state)).toEqual(["moved"]);
  }
});

test("signatures, signers and failed attempts of a tenant are its own", async () => {
  const { esignatures } = records.repository;
  expect((await esignatures.signers("default", { limit: 50 })).signers).toMatchObject([{ subject: "ada" }]);
  expect((await esignatures.signers("acme", { limit: 50 })).signers).toEqual([]);
  const statement = await statementOf(records.repository, { task: "task-1" });
  expect(canonicalText(statement.subject)).toContain('"tenant":"default"');
  await expect(esignatures.subject("acme", { task_id: "task-1" })).rejects.toMatchObject({
    code: "NOT_FOUND",
  });
});
