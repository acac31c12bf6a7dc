/** Damage to the log or to the entries of one tenant stops no other log, and what a log lacks follows when the log is restored. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { stepCatchUp } from "../../../../shared/records/audit-log/log-catch-up.ts";
import { readLogDelay } from "../../../../shared/records/audit-log/log-delay.ts";
import { stepAuditLog } from "../../../../shared/records/audit-log/log-job.ts";
import { lastPlaced, readLog, readPlace } from "../../../../shared/records/audit-log/log-records.ts";
import { decode, encode } from "../../../../shared/records/kv/codec.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Bytes, Reader, Tx } from "../../../../shared/store/store.ts";
import {
  create,
  ENGINES,
  OPERATOR,
  openTestRecords,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { WRITING } from "../../../harness/records/signed.ts";
import { appendAll, entriesOf, logOf } from "./logs.ts";

const now = Date.now;
const guard = async (): Promise<void> => {};
const keys = tenantKeys("default");
const RUBBISH = Buffer.from([0x01, 0xc1]);
const NEWER = Buffer.from([0x04, 0x00]);

describe.each(ENGINES)("on %s", (engine) => {
  let records: TestRecords;
  beforeEach(async () => {
    records = await openTestRecords(engine);
  });
  afterEach(() => records.close());

  const read = <T>(body: (reader: Reader) => Promise<T>): Promise<T> => records.store.read(WRITING, body);
  const write = (body: (tx: Tx) => void): Promise<unknown> =>
    records.store.transact(WRITING, async (tx) => body(tx));
  const append = (times = 1, task = "task-1", tenant = "default"): Promise<unknown> =>
    Array.from({ length: times }).reduce<Promise<unknown>>(
      (before) => before.then(() => create(records.repository, { task, tenant })),
      Promise.resolve(),
    );
  const step = () => stepAuditLog({ store: records.store, guard, now });
  const catchUp = () => stepCatchUp({ store: records.store, guard, now }, null);
  const sizeOf = async (tenant = "default") => (await logOf(records.store, tenant)).size;
  const damaged = async () => (await read((reader) => readLogDelay(reader, now()))).damaged;
  const placeOf = (seq: number) => read((reader) => readPlace(reader, keys, { task: "task-1", seq }));
  const isComplete = async (tenant = "default") => {
    const { leaves } = await logOf(records.store, tenant);
    expect([...leaves].sort()).toEqual((await entriesOf(records.store, tenant)).sort());
  };
  const act = (tenant = "default") => records.repository.startScrub({ ...OPERATOR, tenant });

  for (const [title, keyOf] of [
    ["the root of its log is lost", keys.log()],
    ["its tile is lost", keys.logTile(0, 0)],
  ] as const) {
    test(`a tenant is left aside while ${title}, and then gets all that is missing`, async () => {
      await append(3);
      await append(1, "task-1", "acme");
      await appendAll(records.store);
      const before = await read((reader) => reader.get(keyOf));
      const tile = await read((reader) => reader.get(keys.logTile(0, 0)));
      await write((tx) => tx.clear(keyOf));
      await append(60, "task-1");
      for (let i = 0; i < 60; i += 1) await append(1, `other-${i}`);
      await act();
      await append(2, "task-1", "acme");
      expect([...(await step())!.damaged.keys()]).toEqual(["default"]);
      // The others continue, and nothing is written over the tile.
      await append(1, "task-1", "acme");
      await expect(appendAll(records.store)).rejects.toThrow("the audit log is damaged");
      expect(await sizeOf("acme")).toBe(4);
      expect(await step()).toBeNull();
      expect(await damaged()).toBe(1);
      expect((await catchUp())?.error).toMatchObject({ code: "CORRUPT" });
      if (keyOf === keys.log()) expect(await read((reader) => reader.get(keys.logTile(0, 0)))).toEqual(tile);
      await write((tx) => tx.set(keyOf, before!));
      // New entries come while the chains are compared.
      expect(await catchUp()).toMatchObject({ error: null, more: true });
      await append(2, "task-1");
      await append(2, "other-59");
      await step();
      expect(await damaged()).toBe(0);
      await appendAll(records.store);
      expect(await catchUp()).toBeNull();
      await isComplete();
    });
  }

  test("an entry in a newer format waits, and the logs of other tenants do not", async () => {
    await append(3);
    await append(1, "task-1", "acme");
    const key = keys.audit("task-1", 2);
    const before = await read((reader) => reader.get(key));
    await write((tx) => tx.set(key, NEWER));
    const first = await step();
    expect(first).toMatchObject({ appended: 1, unreadable: 0 });
    expect(first?.damaged.get("default")).toMatchObject({ code: "UNSUPPORTED_VERSION" });
    expect((await catchUp())?.error).toMatchObject({ code: "UNSUPPORTED_VERSION" });
    expect(await read((reader) => lastPlaced(reader, keys, "task-1"))).toBe(0);
    await write((tx) => tx.set(key, before!));
    expect(await appendAll(records.store)).toBe(3);
    await isComplete();
  });

  test("an act in a newer format keeps the log of its tenant aside", async () => {
    await append(1);
    await act();
    const key = keys.tenantAudit(1);
    const before = await read((reader) => reader.get(key));
    await write((tx) => tx.set(key, NEWER));
    expect([...(await step())!.damaged.keys()]).toEqual(["default"]);
    expect((await catchUp())?.error).toMatchObject({ code: "UNSUPPORTED_VERSION" });
    expect(await damaged()).toBe(1);
    await write((tx) => tx.set(key, before!));
    expect(await appendAll(records.store)).toBe(2);
    await isComplete();
  });

  test("a damaged row of the feed is passed, and its entry follows with the next one of its task", async () => {
    await append(1);
    await append(1, "task-1", "acme");
    await appendAll(records.store);
    await append(1);
    const rows = await read((reader) => reader.getRange(systemKeys.feedRange(), { limit: 10 }));
    for (const value of [RUBBISH, encode([]), encode({ tenant: "acme" }), encode(["a b", "t", null, null])])
      await write((tx) => tx.set(rows.rows.at(-1)!.key, value));
    await append(1, "task-1", "acme");
    const delay = await read((reader) => readLogDelay(reader, now() + 60_000));
    expect(delay.delayMs).toBeGreaterThan(50_000);
    expect(await step()).toMatchObject({ appended: 1, damagedRows: 1, more: false });
    expect(await sizeOf("acme")).toBe(2);
    expect(await step()).toBeNull();
    await append(1);
    await appendAll(records.store);
    await isComplete();
  });

  test("an entry that is damaged or does not continue its chain gets a place without a leaf", async () => {
    await append(9);
    const textOf = async (seq: number) =>
      decode<string>((await read((r) => r.get(keys.audit("task-1", seq))))!);
    const changed = async (seq: number, facts: Record<string, unknown>): Promise<Bytes> =>
      encode(canonicalText({ ...(JSON.parse(await textOf(seq)) as object), ...facts } as never));
    // Each is damaged in another way. The entry after it stays sound, because it names the hash of the old text only if it can be compared.
    const values: [seq: number, value: Bytes][] = [
      [2, RUBBISH],
      [4, encode(7)],
      [6, await changed(6, { tenant: "acme" })],
      [8, await changed(8, { seq: 9 })],
    ];
    await write((tx) => {
      for (const [seq, value] of values) tx.set(keys.audit("task-1", seq), value);
    });
    // Those after 6 and 8 name another hash.
    expect(await step()).toMatchObject({ appended: 3, unreadable: 6, more: false });
    const places = await Promise.all(Array.from({ length: 9 }, (_, i) => placeOf(i + 1)));
    expect(places).toEqual([0, null, 1, null, 2, null, null, null, null]);
    expect(await read((reader) => lastPlaced(reader, keys, "task-1"))).toBe(9);
    const proof = records.repository.auditLogs.prove("default", { task_id: "task-1", seq: 7 });
    await expect(proof).rejects.toMatchObject({ code: "CORRUPT" });
    // They are read once, and the next entry does not wait for them.
    expect(await step()).toBeNull();
    await append(1);
    expect(await step()).toMatchObject({ appended: 1, unreadable: 0 });
    expect(await placeOf(10)).toBe(3);
  });

  test("an entry of another task, and a first one that continues something, have no leaf", async () => {
    await append(2);
    await append(1, "task-2");
    const of = (task: string, seq: number) => read((reader) => reader.get(keys.audit(task, seq)));
    const [second, other] = [await of("task-1", 2), await of("task-2", 1)];
    await write((tx) => {
      tx.set(keys.audit("task-1", 1), other!);
      tx.set(keys.audit("task-2", 1), second!);
    });
    expect(await step()).toMatchObject({ appended: 0, unreadable: 3 });
    // Without a leaf there is no checkpoint.
    expect(await read((reader) => readLog(reader, "default"))).toMatchObject({ size: 0, note: null });
    expect(await step()).toBeNull();
  });
});

describe("in memory", () => {
  test("chains whose rows in the feed were lost in bulk follow in small steps", async () => {
    const { store, repository, close } = await openTestRecords("memory");
    const [tasks, each] = [30, 30];
    for (let task = 0; task < tasks; task += 1)
      for (let i = 0; i < each; i += 1) await create(repository, { task: `task-${task}` });
    const { rows } = await store.read(WRITING, (reader) =>
      reader.getRange(systemKeys.feedRange(), { limit: 10_000 }),
    );
    // One transition of each task is left.
    await store.transact(WRITING, async (tx) => {
      for (const [i, { key }] of rows.entries()) if (i % each > 0) tx.clear(key);
    });
    expect((await stepAuditLog({ store, guard, now }))?.appended).toBe(tasks);
    const sizes: number[] = [];
    for (let more = true; more; ) {
      const step = (await stepCatchUp({ store, guard, now }, null))!;
      sizes.push(step.appended);
      more = step.more;
    }
    expect(Math.max(...sizes)).toBeLessThanOrEqual(400);
    expect((await logOf(store, "default")).size).toBe(tasks * each);
    await close();
  });

  test("a step ends after the entry with which it has read some megabytes", async () => {
    const { store, repository, close } = await openTestRecords("memory");
    await create(repository);
    const { rows } = await store.read(WRITING, (reader) =>
      reader.getRange(systemKeys.feedRange(), { limit: 1 }),
    );
    const count = 100;
    // Entries as large as a row can be, without a chain, each with its row in the feed.
    for (let i = 0; i < count; i += 10)
      await store.transact(WRITING, async (tx) => {
        for (let n = i; n < i + 10; n += 1) {
          tx.set(keys.audit("large", n + 1), Buffer.concat([RUBBISH, Buffer.alloc(60_000)]));
          tx.setStampedKey(
            systemKeys.feedPrefix(0),
            new Uint8Array(0),
            encode(["default", "large", null, null]),
          );
        }
      });
    expect(rows.length).toBe(1);
    const first = (await stepAuditLog({ store, guard, now }))!;
    expect(first.more).toBe(true);
    expect(first.unreadable).toBeLessThan(80);
    await appendAll(store);
    expect(await store.read(WRITING, (reader) => lastPlaced(reader, keys, "large"))).toBe(count);
    await close();
  });
});
