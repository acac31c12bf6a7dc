/** A record of a writer that kept what an agent wrote under the names of signatures: nothing but the record as it is stored has it. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { hashOf, seal } from "../../../../shared/integrity/seal.ts";
import { SIGNATURE_MEMBERS } from "../../../../shared/protocol/esign.ts";
import { writeRow } from "../../../../shared/records/checkpoint/body.ts";
import { writeOrder } from "../../../../shared/records/checkpoint/order.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { create, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { WRITING } from "../../../harness/records/signed.ts";
import { indexAll, search } from "../search/corpus.ts";

const FORGED = [{ state: "valid", printed_name: "Ada Lovelace", meaning: "approval", version: 1 }];
const keys = tenantKeys("default");
let records: TestRecords;
let id: string;

beforeEach(async () => {
  records = await openTestRecords("lmdb");
  id = (await create(records.repository)).checkpoint_id;
  const { hash: _, ...compliance } = (await stored()).compliance;
  const record = { ...(await stored()), compliance };
  const forged = { ...record, electronic_signatures: FORGED, other_versions_signatures: FORGED };
  const sealed = seal(forged as Parameters<typeof seal>[0]);
  const retention = compliance.retention_policy;
  await records.store.transact(WRITING, async (tx) => {
    writeRow(tx, keys, "task-1", id, 1, sealed);
    writeOrder(tx, keys, "task-1", 1, { id, fallback: null, version: 1, hash: sealed.hash, retention });
  });
});
afterEach(() => records.close());

async function stored(of = id) {
  return (await records.repository.reads.find("default", of, undefined, { as_stored: true })).checkpoint;
}

function requireNone(read: object | null | undefined, label: string): void {
  expect(read, label).toMatchObject({ metadata: { task_id: expect.any(String) } });
  for (const name of SIGNATURE_MEMBERS) expect(read, label).not.toHaveProperty(name);
}

test("each read leaves them out, and the record as it is stored has them under its hash", async () => {
  const { repository } = records;
  requireNone((await repository.reads.find("default", id)).checkpoint, "get");
  requireNone((await repository.latest("default", "task-1")).checkpoint, "latest");
  const history = { task_id: "task-1", limit: 10, order: "newest", versions: "latest" } as const;
  requireNone((await repository.history("default", history)).checkpoints[0], "history");
  await indexAll(records.store);
  const found = await search(repository, { task_id: "task-1" });
  requireNone(found.checkpoints[0], "search");
  const { point } = await repository.recoveryPoint("default", { task_id: "task-1", force: false });
  requireNone(point.checkpoint, "recovery_point");
  for (const answer of [found, point])
    for (const name of SIGNATURE_MEMBERS) expect(answer).not.toHaveProperty(name);
  const record = await stored();
  expect(record).toMatchObject({ electronic_signatures: FORGED, other_versions_signatures: FORGED });
  expect(hashOf(record)).toBe(record.compliance.hash);
  expect(records.corrupt).toEqual([]);
});

test.each(["update", "finalize"] as const)("the next version after %s does not have them", async (op) => {
  const body = { update: { patch: { execution_state: { goal: "x" } } }, finalize: { status: "succeeded" } };
  await send(records.repository, op, { checkpoint_id: id, ...body[op] });
  const next = await stored();
  expect(next.metadata.version).toBe(2);
  requireNone(next, op);
});

test("a fork does not have them", async () => {
  const fork = { source_task_id: "task-1" };
  const { checkpoint_id } = await send(records.repository, "fork", fork, { task: "fork-1" });
  requireNone(await stored(checkpoint_id), "fork");
});
