/**
 * Damage to any single record of a task, written through the store: it is never served, never built upon, and
 * always reported.
 */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { FleetError } from "../../../../shared/protocol/errors.ts";
import { readDue } from "../../../../shared/records/kv/due-index.ts";
import { systemKeys, type TenantKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { outboxBacklog, readOutbox } from "../../../../shared/records/outbox/outbox.ts";
import { recoveriesDue } from "../../../../shared/records/recovery/due.ts";
import type { LeaseKey } from "../../../../shared/records/recovery/leases.ts";
import { readHeads, readOwned } from "../../../../shared/records/task/task-list.ts";
import { type Bytes, STAMP_BYTES } from "../../../../shared/store/store.ts";
import {
  create,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { noteFailure } from "../../../harness/records/recoveries.ts";

const keys: TenantKeys = tenantKeys("default");
const TASK = "task-1";
let bench: TestRecords;

beforeEach(async () => {
  bench = await openTestRecords("memory");
});
afterEach(() => bench.close());

const read = (key: Bytes) =>
  bench.store.read({ label: "test", deadlineMs: 1_000 }, (reader) => reader.get(key));
const write = (key: Bytes, value: Bytes | undefined) =>
  bench.store.transact({ label: "test", deadlineMs: 1_000, onUnknown: "unsafe" }, async (tx) => {
    if (value === undefined) tx.clear(key);
    else tx.set(key, value);
  });
const flip = async (key: Bytes, at = -20) => {
  const value = Uint8Array.from((await read(key)) ?? []);
  value[at < 0 ? value.length + at : at]! ^= 1;
  await write(key, value);
};
const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => "no error",
    (error: FleetError) => error.code,
  );
const update = (id: string) => send(bench.repository, "update", { checkpoint_id: id, patch: { a: 1 } });
const history = () => bench.repository.history("default", { task_id: TASK, limit: 10, order: "newest" });

async function corruptedEvents(): Promise<number> {
  let count = 0;
  await bench.store.read({ label: "test", deadlineMs: 1_000 }, async (reader) => {
    for (let partition = 0; partition < 8; partition += 1) {
      const { entries } = await readOutbox(reader, partition, 1_000);
      count += entries.filter(({ event }) => event.type === "CHECKPOINT_CORRUPTED").length;
    }
    expect((await outboxBacklog(reader)).depth).toBeGreaterThan(0);
  });
  return count;
}

test("a row rolled back to its earlier version is not served, and cannot be built upon", async () => {
  const { checkpoint_id: id } = await create(bench.repository);
  const row = keys.checkpoint(TASK, id);
  const before = await read(row);
  await update(id);
  await write(row, before);
  expect(await codeOf(bench.repository.get("default", id))).toBe("CORRUPT");
  expect(await codeOf(update(id))).toBe("CORRUPT");
  expect(await codeOf(bench.repository.latest("default", TASK))).toBe("CORRUPT");
  expect(await corruptedEvents()).toBe(1);
});

test("a finalized checkpoint rolled back to its draft stays closed", async () => {
  const { checkpoint_id: id } = await create(bench.repository);
  const row = keys.checkpoint(TASK, id);
  const draft = await read(row);
  await finalize(bench.repository, id);
  await write(row, draft);
  expect(await codeOf(update(id))).toBe("CORRUPT");
  expect(await codeOf(finalize(bench.repository, id, "failed"))).toBe("CORRUPT");
});

test("a damaged current version is CORRUPT also when it is requested by number", async () => {
  const { checkpoint_id: id } = await create(bench.repository);
  await update(id);
  await flip(keys.checkpoint(TASK, id));
  expect(await codeOf(bench.repository.get("default", id, 2))).toBe("CORRUPT");
  expect((await bench.repository.get("default", id, 1)).metadata.version).toBe(1);
  expect(await codeOf(bench.repository.get("default", id, 3))).toBe("NOT_FOUND");
});

test("an earlier version that is missing, or under the key of another version, is CORRUPT", async () => {
  const { checkpoint_id: id } = await create(bench.repository);
  await update(id);
  await update(id);
  const first = await read(keys.version(TASK, id, 1));
  await write(keys.version(TASK, id, 2), first);
  expect(await codeOf(bench.repository.get("default", id, 2))).toBe("CORRUPT");
  await write(keys.version(TASK, id, 1), undefined);
  expect(await codeOf(bench.repository.get("default", id, 1))).toBe("CORRUPT");
});

test.each(["missing", "damaged"])("an order entry that is %s is named in the history", async (how) => {
  for (let i = 0; i < 3; i += 1) await create(bench.repository);
  const key = keys.order(TASK, 2);
  if (how === "missing") await write(key, undefined);
  else await flip(key);
  const page = await history();
  expect(page.checkpoints.map(({ metadata }) => metadata.seq)).toEqual([3, 1]);
  expect(page.corrupt).toEqual([
    { checkpoint_id: null, version: null, reason: expect.stringContaining("position 2") },
  ]);
  expect(bench.corrupt).toHaveLength(1);
});

test.each(["lost", "rolled back"])("no command continues from a head that is %s", async (how) => {
  await create(bench.repository);
  const before = await read(keys.task(TASK));
  await create(bench.repository);
  await create(bench.repository);
  await write(keys.task(TASK), how === "lost" ? undefined : before);
  expect(await codeOf(create(bench.repository))).toBe("CORRUPT");
  await expect(read(keys.order(TASK, 3))).resolves.toBeDefined();
  await expect(read(keys.audit(TASK, 4))).resolves.toBeUndefined();
});

test("a damaged byte outside the hashed body is CORRUPT", async () => {
  const { checkpoint_id: id } = await create(bench.repository);
  const row = keys.checkpoint(TASK, id);
  const value = Uint8Array.from((await read(row)) ?? []);
  // MessagePack's nil, the absent signature, becomes false.
  expect(value.at(-1)).toBe(0xc0);
  await write(row, value.with(-1, 0xc2));
  expect(await codeOf(bench.repository.get("default", id))).toBe("CORRUPT");
});

test("a checksummed record with a damaged format byte is not read as one without a checksum", async () => {
  for (let i = 0; i < 3; i += 1) await create(bench.repository);
  const entry = Uint8Array.from((await read(keys.order(TASK, 2))) ?? []);
  for (const format of [0x01, 0x02, 0x07, 0x83]) {
    await write(keys.order(TASK, 2), entry.with(0, format));
    const page = await history();
    expect(page.checkpoints.map(({ metadata }) => metadata.seq)).toEqual([3, 1]);
    expect(page.corrupt).toHaveLength(1);
  }
});

test("a corrupt checkpoint of a task whose head was rolled back adds nothing to its trail", async () => {
  const { checkpoint_id: id } = await create(bench.repository);
  const before = await read(keys.task(TASK));
  await create(bench.repository);
  const entry = await read(keys.audit(TASK, 2));
  await write(keys.task(TASK), before);
  await flip(keys.checkpoint(TASK, id));
  expect(await codeOf(bench.repository.get("default", id))).toBe("CORRUPT");
  expect(await read(keys.audit(TASK, 2))).toEqual(entry);
});

test("a damaged head is CORRUPT for every read and write of its task, and for no other task", async () => {
  await create(bench.repository);
  await flip(keys.task(TASK));
  expect(await codeOf(create(bench.repository))).toBe("CORRUPT");
  expect(await codeOf(bench.repository.task("default", TASK))).toBe("CORRUPT");
  expect(await codeOf(history())).toBe("CORRUPT");
  expect((await create(bench.repository, { task: "other" })).seq).toBe(1);
});

test("a damaged idempotency record gives no answer, and the command is not applied again", async () => {
  const commandId = uuidv7();
  const by = { commandId, checkpoint: input() };
  const answer = await create(bench.repository, by);
  const record = keys.command(commandId);
  const { length } = (await read(record)) ?? [];
  for (let at = STAMP_BYTES; at < (length ?? 0); at += 7) {
    const sound = await read(record);
    await flip(record, at);
    expect(await codeOf(create(bench.repository, by)), `byte ${at}`).toMatch(/CORRUPT|UNSUPPORTED_VERSION/);
    await write(record, sound);
  }
  expect(await create(bench.repository, by)).toMatchObject({ checkpoint_id: answer.checkpoint_id, seq: 1 });
});

test("a damaged lease does not hide the others, and is read as an expired lease of the owner", async () => {
  const { repository } = bench;
  const leases = [1, 2, 3].map((n) => ({
    tenant: "default",
    task: `task-${n}`,
    fence: 1,
    agentId: `agent-${n}`,
    agentType: "qa",
    lapsesAt: 1_000,
  }));
  for (const { task, agentId } of leases) await send(repository, "take", {}, { task, agent: agentId });
  await repository.recoveryActions.renewLeases(leases);
  for (const n of [2, 3]) await flip(systemKeys.agentLease("default", `task-${n}`, 1));
  await send(repository, "release", {}, { task: "task-3", agent: "agent-3", fence: 1 });
  const { updated_at } = await repository.task("default", "task-2");
  const found = [];
  for (let last: LeaseKey | null | undefined; last !== null; ) {
    const page = await repository.recoveryActions.leases(last ?? null, 1);
    found.push(...page.leases);
    last = page.last;
  }
  expect(found).toEqual([leases[0], { ...leases[1], agentType: "", lapsesAt: Date.parse(updated_at) }]);
});

test("a damaged head does not hide other tasks from a scan", async () => {
  const { repository, store } = bench;
  for (const task of ["one", "two", "three"]) {
    const by = { task, agent: `agent-${task}` };
    await send(repository, "take", {}, by);
    await create(repository, { ...by, fence: 1 });
    if (task !== "three") await noteFailure(repository, task);
  }
  await flip(keys.task("one"));
  const reading = { label: "test", deadlineMs: 1_000 };
  const due = await store.read(reading, (reader) =>
    readDue(reader, recoveriesDue(Date.now() + 86_400_000), 10),
  );
  expect(due.map(({ task_id }) => task_id)).toEqual(["two"]);
  const owned = await store.read(reading, (reader) => readOwned(reader, "default", null, 10));
  expect(owned.tasks.map(({ task_id }) => task_id)).toEqual(["three"]);
  const [damaged, sound] = await store.read(reading, (reader) =>
    readHeads(reader, "default", ["one", "two"]),
  );
  expect([damaged, sound?.task_id]).toEqual([null, "two"]);
});

test("an update does not bring a quarantined checkpoint back into service", async () => {
  const { checkpoint_id: id } = await create(bench.repository);
  const row = keys.checkpoint(TASK, id);
  const sound = await read(row);
  await flip(row);
  expect(await codeOf(bench.repository.get("default", id))).toBe("CORRUPT");
  await write(row, sound);
  expect(await codeOf(bench.repository.get("default", id))).toBe("CORRUPT");
  expect(await codeOf(update(id))).toBe("CORRUPT");
  expect(await codeOf(send(bench.repository, "link", { parent_id: id, child_id: id }))).toBe("INVALID");
  const { checkpoint_id: next } = await create(bench.repository);
  expect((await bench.repository.latest("default", TASK)).checkpoint?.metadata.checkpoint_id).toBe(next);
});

test("a checkpoint of the largest size can still be finalized", async () => {
  const checkpoint = {
    metadata: { agent_type: "qa" as const },
    execution_state: { phase: "testing" as const },
  };
  const probe = await create(bench.repository, { task: "size-a", checkpoint: { ...checkpoint, body: "" } });
  const { canonicalText } = await import("../../../../shared/integrity/canonical.ts");
  const { compliance, ...rest } = await bench.repository.get("default", probe.checkpoint_id);
  const { hash: _hash, ...unsealed } = compliance;
  const room = 1_000_000 - Buffer.byteLength(canonicalText({ ...rest, compliance: unsealed }));
  const full = await create(bench.repository, {
    task: "size-b",
    checkpoint: { ...checkpoint, body: "x".repeat(room) },
  });
  const done = await finalize(bench.repository, full.checkpoint_id, "succeeded", { task: "size-b" });
  expect(done.version).toBe(2);
});
