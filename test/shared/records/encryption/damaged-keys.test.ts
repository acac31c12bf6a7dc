/** Rows of data keys were changed or lost: their owner's records count as damaged, the scrub names the key, and others are unaffected. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Bytes, Store } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { create } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

const LOOK = { label: "test", deadlineMs: 20_000 } as const;
const root = rootKey();
let engine: Store;
/** Of a service that has just started, so it knows no key. */
let store: Store;
let repository: CheckpointRepository;
const ids = new Map<string, string>();

beforeEach(async () => {
  engine = await openStore("memory:");
  await restart();
  for (const task of ["t1", "t2"]) {
    const { checkpoint_id: id } = await create(repository, { task });
    ids.set(task, id);
  }
  await create(repository, { tenant: "lab", task: "t1" });
  await restart();
});
afterEach(() => engine.close({ drainMs: 1_000 }));

async function restart(): Promise<void> {
  ({ store } = await openEncryption(engine, [root]));
  repository = repositoryOn(store, { format: await openFormat(store) });
}

/** Returns the row as it was. */
async function change(key: Bytes, to: (row: Buffer) => Bytes | undefined): Promise<Bytes> {
  const { value } = await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => {
    const row = (await tx.get(key))!;
    const changed = to(Buffer.from(row));
    if (changed === undefined) tx.clear(key);
    else tx.set(key, changed);
    return row;
  });
  await restart();
  return value;
}

const found = async () =>
  (await scrub({ store, repository })).findings.map(({ task_id, details }) => [task_id, details]);
const flipAt = (at: number) => (row: Buffer) => {
  const i = at < 0 ? row.length + at : at;
  row[i]! ^= 1;
  return row;
};

const key = tenantKeys("default").dataKeys("t1");
const CHANGED =
  "the data key of the task was changed, or the bucket key that wrapped it: restore its row from a backup";
const LOST = "the data key of the task is lost: restore its row from a backup";

test.each<[name: string, to: (row: Buffer) => Bytes | undefined, details: string]>([
  ["whose first byte was changed", flipAt(0), CHANGED],
  ["whose checksum was changed", flipAt(1), CHANGED],
  ["whose last byte was changed", flipAt(-1), CHANGED],
  [
    "that has the format of another value",
    (row) => Buffer.concat([Buffer.of(0x01), row.subarray(5)]),
    CHANGED,
  ],
  ["of a format that no version has", (row) => Buffer.concat([Buffer.of(0x7f), row.subarray(1)]), CHANGED],
  ["that is empty", () => Buffer.alloc(0), CHANGED],
  ["that is lost", () => undefined, LOST],
])("a data key %s damages its task and no other", async (_, to, details) => {
  const before = await change(key, to);
  await expect(repository.get("default", ids.get("t1")!)).rejects.toMatchObject({ code: "CORRUPT" });
  await expect(create(repository, { task: "t1" })).rejects.toMatchObject({ code: "CORRUPT" });
  expect(await repository.get("default", ids.get("t2")!)).toMatchObject({ metadata: { task_id: "t2" } });
  await create(repository, { task: "t2" });
  await create(repository, { task: "t3" });
  expect(await found()).toEqual([["t1", details]]);
  await engine.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.set(key, before));
  await restart();
  expect(await found()).toEqual([]);
  await create(repository, { task: "t1" });
});

test("a scrub names the changed keys of a tenant and of the system, and reads all other tenants", async () => {
  await change(tenantKeys("lab").tenantDataKeys(), flipAt(0));
  const { findings, pass } = await scrub({ store, repository });
  expect(pass.tasks).toBe(3);
  expect(findings).toEqual([]);
  const { findings: ofLab } = await repository.scrubFindings("lab", { limit: 100 });
  expect(ofLab.map(({ details }) => details)).toContain(
    "the data key of the tenant was changed, or the bucket key that wrapped it: restore its row from a backup",
  );
  await expect(create(repository, { tenant: "lab", task: "t1" })).rejects.toMatchObject({ code: "CORRUPT" });
  await create(repository, { task: "t1" });
});

test("a changed bucket key is named with each key that it wrapped", async () => {
  await change(systemKeys.bucketKey("lab", 1), flipAt(0));
  await scrub({ store, repository });
  const { findings } = await repository.scrubFindings("lab", { limit: 100 });
  expect(findings).toContainEqual(expect.objectContaining({ task_id: "t1", details: CHANGED }));
  expect(findings.map(({ details }) => details)).toContainEqual(
    expect.stringMatching(/of the tenant was changed/),
  );
  expect(await found()).toEqual([]);
});
