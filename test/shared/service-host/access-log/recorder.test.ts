/** What a process keeps of the access log in memory: equal entries, and those that the store does not accept. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AccessEntry, AccessLogMode } from "../../../../shared/protocol/access-log.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { AccessBatch } from "../../../../shared/records/access-log/append.ts";
import { encode } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { AccessRecorder } from "../../../../shared/service-host/access-log/access-recorder.ts";
import { StoreError } from "../../../../shared/store/store.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { openTestRecords, type TestRecords } from "../../../harness/records/records.ts";

const SOON = { timeout: 30_000 };
const TEST_MS = 120_000;

let bench: TestRecords;
let recorder: AccessRecorder;
/** The store does not accept such a batch. */
let isAway: (batch: AccessBatch) => boolean;
/** What the store has been asked to append. */
let asked: AccessBatch[];

beforeEach(async () => {
  bench = await openTestRecords("memory");
  isAway = () => false;
  asked = [];
});
afterEach(async () => {
  await recorder.stop();
  await bench.close();
});

function start(access_log: AccessLogMode): void {
  const { accessLogs } = bench.repository;
  recorder = new AccessRecorder(
    { log: testLog, clock: systemClock, metrics: createMetrics({ service: "test" }) },
    { defaults: {}, access_log, tenants: {} },
    {
      append: async (tenant, batch) => {
        asked.push(batch);
        if (isAway(batch)) throw new StoreError("unavailable", "the store is away on purpose");
        return accessLogs.append(tenant, batch);
      },
    },
  );
}

const entry = (facts: Partial<AccessEntry> = {}): AccessEntry => ({
  at: new Date().toISOString(),
  actor: { id: "reader-1", type: "agent" },
  op: "query.artifact_read",
  outcome: "ok",
  ...facts,
});
const sha256 = (i: number): string => i.toString(16).padStart(64, "0");
const denial = (i: number): AccessEntry =>
  entry({ actor: { id: "evil-1", type: "agent" }, op: "http.getTask", outcome: "denied", task_id: `t-${i}` });
const states = async (...reads: readonly (Promise<void> | undefined)[]) =>
  (await Promise.allSettled(reads)).map(({ status }) => status);
const listed = async (query: object, tenant = "default") =>
  (await bench.repository.accessLogs.list(tenant, { denied: false, limit: 500, ...query })).entries;

test("a flood of refusals takes no names from reads, nor from another tenant", {
  timeout: TEST_MS,
}, async () => {
  start("strict");
  for (let i = 0; i < LIMITS.access_log_repeat_count_max + 10; i += 1) recorder.refused("default", denial(i));
  await recorder.readAgain("default", entry({ sha256: sha256(1) }));
  recorder.refused("quokka", denial(1));
  await recorder.stop();
  expect(await listed({ actor: "reader-1" })).toMatchObject([{ outcome: "ok", sha256: sha256(1) }]);
  expect(await listed({ actor: "evil-1" }, "quokka")).toMatchObject([{ task_id: "t-1" }]);
  // Those beyond the limit are counted together.
  expect(await listed({ actor: "*" })).toMatchObject([{ outcome: "denied", count: 10 }]);
});

test("failed reads of other checkpoints and handoffs are entries of their own", {
  timeout: TEST_MS,
}, async () => {
  start("strict");
  const asked = ["checkpoint_id", "handoff_id"].flatMap((name) =>
    Array.from({ length: 3 }, (_, i) => ({ [name]: `${name}-${i}` })),
  );
  // Each one twice: the second is counted with the first.
  for (const ids of [...asked, ...asked])
    recorder.refused("default", entry({ op: "query.get", outcome: "failed", reason: "NOT_FOUND", ...ids }));
  await recorder.stop();
  const entries = await listed({ actor: "reader-1" });
  for (const ids of asked) {
    const own = entries.filter(
      (one) => one.checkpoint_id === ids.checkpoint_id && one.handoff_id === ids.handoff_id,
    );
    expect(own.reduce((sum, { count = 1 }) => sum + count, 0)).toBe(2);
  }
  expect(entries).toHaveLength(2 * asked.length);
});

test("reads of more things than are counted are one entry each", { timeout: TEST_MS }, async () => {
  start("strict");
  const count = LIMITS.access_log_repeat_count_max + 3;
  await Promise.all(
    Array.from({ length: count }, (_, i) => recorder.readAgain("default", entry({ sha256: sha256(i) }))),
  );
  const last = await listed({ actor: "reader-1" });
  expect(last.map((one) => one.sha256)).toContain(sha256(count - 1));
  expect(await listed({ actor: "*" })).toEqual([]);
});

test("repeated lists are counted together only if they show the same", { timeout: TEST_MS }, async () => {
  start("batched");
  const long = Array.from({ length: 100 }, (_, i) => `t-${i}`.padEnd(64, "x"));
  const lists = [
    { task_ids: ["t-1", "t-2"], items: 2 },
    { task_ids: ["t-1", "t-3"], items: 2 },
    { task_ids: ["t-1", "t-2"], items: 3 },
    { task_id: "t-1", items: 1 },
    { task_ids: long, items: 100 },
    { task_ids: [...long.slice(1), "t-new"], items: 100 },
  ];
  const read = (facts: Partial<AccessEntry>) =>
    recorder.readAgain("default", entry({ op: "query.tasks", ...facts }));
  for (const facts of lists) {
    void read(facts);
    const { task_ids } = facts;
    // The order changes with the newest task.
    void read({ ...facts, ...(task_ids !== undefined && { task_ids: [...task_ids].reverse() }) });
    void read(facts);
  }
  await recorder.stop();
  const entries = await listed({ actor: "reader-1" });
  const shown = ({ task_id, task_ids, items }: Partial<AccessEntry>) =>
    JSON.stringify([task_id, [...(task_ids ?? [])].sort(), items]);
  expect(entries).toHaveLength(2 * lists.length);
  for (const facts of lists) {
    const own = entries.filter((one) => shown(one) === shown(facts));
    expect(own.map(({ count = 1 }) => count).sort()).toEqual([1, 2]);
  }
});

test("strict: a repeated read waits for the first entry, and fails with it", {
  timeout: TEST_MS,
}, async () => {
  start("strict");
  const read = () => recorder.readAgain("default", entry({ sha256: sha256(1) }));
  isAway = () => true;
  expect(await states(read(), read())).toEqual(["rejected", "rejected"]);
  // The first entry is not in the log, so the next read is a first one.
  expect(await states(read())).toEqual(["rejected"]);
  isAway = () => false;
  const answered = async () => (await states(read()))[0];
  await expect.poll(answered, SOON).toBe("fulfilled");
  expect((await listed({ actor: "reader-1" })).length).toBeGreaterThanOrEqual(1);
});

test("strict: the reads of a tenant with a damaged log are refused, and those of others are not", {
  timeout: TEST_MS,
}, async () => {
  start("strict");
  const options = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
  await bench.store.transact(options, async (tx) =>
    tx.set(tenantKeys("damaged").accessBlock(1), encode("a block without a record of the chain")),
  );
  const reads = Array.from({ length: LIMITS.access_log_held_count_max + 1 }, () =>
    recorder.read("damaged", entry()),
  );
  expect(new Set(await states(...reads))).toEqual(new Set(["rejected"]));
  expect(await states(recorder.read("default", entry()))).toEqual(["fulfilled"]);
});

test("a session whose batch was given up at the stop stays open", { timeout: TEST_MS }, async () => {
  start("batched");
  await recorder.read("default", entry());
  isAway = ({ n }) => n === 2;
  void recorder.read("default", entry({ op: "query.get" }));
  await expect.poll(() => asked.some(({ n }) => n === 2), SOON).toBe(true);
  void recorder.read("default", entry({ op: "query.latest" }));
  await recorder.stop();
  const { sessions } = await bench.repository.accessLogs.blocks("default", { from_seq: 1, limit: 100 });
  expect(sessions).toMatchObject([{ state: "open" }]);
  expect((await listed({})).map(({ op }) => op)).toEqual(["query.latest", "query.artifact_read"]);
});

test("a session that has lost nothing is closed at the stop", { timeout: TEST_MS }, async () => {
  start("batched");
  await recorder.read("default", entry());
  void recorder.read("default", entry());
  await recorder.stop();
  const { sessions } = await bench.repository.accessLogs.blocks("default", { from_seq: 1, limit: 100 });
  expect(sessions).toMatchObject([{ state: "closed" }]);
});

test("entries that name many tasks are written in batches that a transaction has room for", {
  timeout: TEST_MS,
}, async () => {
  start("batched");
  const tasks = (i: number) => Array.from({ length: 100 }, (_, n) => `t-${i}-${n}-`.padEnd(64, "x"));
  for (let i = 0; i < 200; i += 1) recorder.read("default", entry({ task_ids: tasks(i), items: 100 }));
  await recorder.stop();
  expect(asked.length).toBeGreaterThan(1);
  expect(await listed({})).toHaveLength(200);
  expect(await listed({ task_id: tasks(150)[99] })).toHaveLength(1);
});
