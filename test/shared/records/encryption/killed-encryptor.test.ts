/** A process is killed at any point while it makes keys, converts rows or rotates keys: every row can still be read. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startEncryptor } from "../../../../services/watchdog/encryption/encryptor.ts";
import { secretKeyOf } from "../../../../shared/integrity/encryption/secret-key.ts";
import { readRotation } from "../../../../shared/records/encryption/jobs/rotation-record.ts";
import { parseBucketKey } from "../../../../shared/records/encryption/keys/encryption-keys.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { decodeChecked, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { convertStore, indexStore } from "../../../harness/encryption/conversion.ts";
import { addTaskKeys, requestBuckets, rotateBuckets } from "../../../harness/encryption/rotation.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { create } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

const PROGRAM = join(import.meta.dirname, "encryptor.program.ts");
const secret = randomBytes(32).toString("base64");
const LOOK = { label: "test", deadlineMs: 20_000 } as const;
let folder: string;
let url: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-encryptor-"));
  url = `lmdb:${folder}/store`;
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Resolves with the lines that it wrote before it was killed in the middle of its work. */
async function killedAfter(lines: number, work: string, option = ""): Promise<readonly string[]> {
  const child = spawn(process.execPath, [PROGRAM, work, url, secret, option], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    if (text.split("\n").length > lines) child.kill("SIGKILL");
  });
  await new Promise((resolve) => child.once("close", resolve));
  return text.split("\n").slice(0, -1);
}

async function open() {
  const engine = await openStore(url);
  const { store, ring } = await openEncryption(engine, [secretKeyOf(secret)!]);
  const repository = repositoryOn(store, { format: await openFormat(store) });
  return { engine, store, ring, repository };
}
type Opened = Awaited<ReturnType<typeof open>>;

async function requireSound({ store, repository }: Opened): Promise<number> {
  const { pass } = await scrub({ store, repository });
  expect(await findingsOf(repository)).toEqual([]);
  return pass.checkpoints;
}

test("while it makes keys", { timeout: 100_000 }, async () => {
  const tasks: string[] = [];
  for (let kill = 1; kill <= 3; kill += 1) tasks.push(...(await killedAfter(15 * kill, "create")));
  const opened = await open();
  expect(tasks.length).toBeGreaterThanOrEqual(90);
  expect(await requireSound(opened)).toBeGreaterThanOrEqual(tasks.length);
  for (const task of tasks.slice(-5))
    expect(await opened.repository.task("default", task)).toMatchObject({ seq: 1 });
  await opened.engine.close({ drainMs: 5_000 });
});

async function plainStore(tasks: number): Promise<void> {
  const store = await openStore(url);
  const repository = repositoryOn(store, { format: await openFormat(store) });
  for (let n = 0; n < tasks; n += 1) await create(repository, { task: `task-${n}` });
  await indexStore(store);
  await store.close({ drainMs: 5_000 });
}

test("while it converts rows", { timeout: 100_000 }, async () => {
  await plainStore(150);
  for (const lines of [1, 2]) await killedAfter(lines, "convert");
  const opened = await open();
  await convertStore(opened.engine, opened.store);
  expect(await requireSound(opened)).toBe(150);
  await opened.engine.close({ drainMs: 5_000 });
});

/** Counts the bucket keys: one of the system and one of the tenant, when no rotation is in progress. */
async function bucketKeys({ engine }: Opened): Promise<number> {
  const page = await engine.read(LOOK, (reader) => reader.getRange(systemKeys.bucketKeys(), { limit: 100 }));
  return page.rows.length;
}

test("while it rotates keys", { timeout: 100_000 }, async () => {
  const tasks = await killedAfter(30, "create");
  for (const lines of [1, 3, 4, 7]) await killedAfter(lines, "rotate");
  const opened = await open();
  expect(await requireSound(opened)).toBeGreaterThanOrEqual(tasks.length);
  expect(await rotateBuckets(opened)).toMatchObject({ state: "idle", record: null });
  expect(await bucketKeys(opened)).toBe(2);
  const again = await open2(opened);
  expect(await requireSound(again)).toBeGreaterThanOrEqual(tasks.length);
  await again.engine.close({ drainMs: 5_000 });
});

/** Keys of tasks, of which the last one has a row, and a request for new bucket keys. */
async function manyTasks(count: number): Promise<void> {
  const { engine, store, ring } = await open();
  await addTaskKeys({ engine, ring }, "many", count - 1);
  await store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) =>
    tx.set(tenantKeys("many").task(`task-${count - 1}`), encodeChecked(count - 1)),
  );
  await requestBuckets(store);
  await engine.close({ drainMs: 5_000 });
}

async function requireTask(n: number): Promise<void> {
  const { engine, store } = await open();
  const value = await store.read(LOOK, (reader) => reader.get(tenantKeys("many").task(`task-${n}`)));
  expect(decodeChecked(value!)).toBe(n);
  await engine.close({ drainMs: 5_000 });
}

test("while it rotates the keys of many tasks: another process continues where it was", {
  timeout: 200_000,
}, async () => {
  const TASKS = 1_500;
  await manyTasks(TASKS);
  // It is killed in the middle of its walk: after the step of the new bucket keys, and some steps of data keys.
  const lines = await killedAfter(4, "rotate", "6");
  const counted = lines.map((line) => Number(line.split(" ")[1])).reduce((sum, count) => sum + count, 0);
  expect(lines[0]).toBe("wrapping 0");
  expect(counted).toBeGreaterThanOrEqual(100);
  const opened = await open();
  const rest = await rotateBuckets(opened);
  // With the keys of the system and of the tenant. A step may have been committed before its line was printed, and none is done again.
  expect(counted + rest.rewrapped).toBeLessThanOrEqual(TASKS + 2);
  expect(rest.rewrapped).toBeGreaterThanOrEqual(TASKS - 5 * 100);
  expect(await bucketKeys(opened)).toBe(2);
  await opened.engine.close({ drainMs: 5_000 });
  await requireTask(TASKS - 1);
});

test("while two watchdogs run: the next one takes over, and no tenant gets two bucket keys", {
  timeout: 200_000,
}, async () => {
  const TASKS = 5_000;
  await manyTasks(TASKS);
  await killedAfter(Infinity, "watch", "3");
  const opened = await open();
  const rotation = () => opened.store.read(LOOK, async (reader) => (await readRotation(reader)).record);
  const left = await rotation();
  expect(left).toMatchObject({ phase: "wrapping", rotation: 1, pass: 1, damaged: 0, unavailable: 0 });
  // The lease of the killed one ends by itself.
  const stop = startEncryptor({
    ...{ ...opened, encryption: opened, clock: systemClock, log: testLog, metrics: createMetrics() },
    leases: createLeaderLeases(opened.store, "three", Date.now),
  });
  try {
    await expect.poll(rotation, { timeout: 120_000, interval: 100 }).toBeNull();
  } finally {
    await stop();
  }
  const { rows } = await opened.engine.read(LOOK, (reader) =>
    reader.getRange(systemKeys.bucketKeys(), { limit: 100 }),
  );
  expect(rows.map(({ key }) => parseBucketKey(key))).toEqual([
    { tenant: null, generation: 2 },
    { tenant: "many", generation: 2 },
  ]);
  await opened.engine.close({ drainMs: 5_000 });
  await requireTask(TASKS - 1);
});

/** Without what the first opening knows. */
async function open2(before: Opened): Promise<Opened> {
  await before.engine.close({ drainMs: 5_000 });
  return open();
}
