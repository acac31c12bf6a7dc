/** A process is killed at any point while it makes keys, converts rows or rotates keys: every row can still be read. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { secretKeyOf } from "../../../../shared/integrity/encryption/secret-key.ts";
import { stepConversion } from "../../../../shared/records/encryption/jobs/conversion.ts";
import { rewrapDataKeysOfAll } from "../../../../shared/records/encryption/jobs/rotation.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { systemKeys } from "../../../../shared/records/kv/keyspace.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { create } from "../../../harness/records/records.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn } from "../../../harness/records/signed.ts";

const PROGRAM = join(import.meta.dirname, "encryptor.program.ts");
const guard = async () => {};
const secret = randomBytes(32).toString("base64");
let folder: string;
let url: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-encryptor-"));
  url = `lmdb:${folder}/store`;
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Resolves with the lines that it wrote before it was killed in the middle of its work. */
async function killedAfter(lines: number, work: string): Promise<readonly string[]> {
  const child = spawn(process.execPath, [PROGRAM, work, url, secret], {
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
  while ((await stepIndex(store, guard)).more);
  await store.close({ drainMs: 5_000 });
}

test("while it converts rows", { timeout: 100_000 }, async () => {
  await plainStore(150);
  for (const lines of [1, 2]) await killedAfter(lines, "convert");
  const opened = await open();
  for (let state = ""; state !== "complete"; ) {
    ({ state } = await stepConversion({ ...opened, guard, nowMs: Date.now() }));
    while ((await stepIndex(opened.store, guard)).more);
  }
  expect(await requireSound(opened)).toBe(150);
  await opened.engine.close({ drainMs: 5_000 });
});

test("while it rotates keys", { timeout: 100_000 }, async () => {
  const tasks = await killedAfter(30, "create");
  for (const lines of [1, 2, 3]) await killedAfter(lines, "rotate");
  const opened = await open();
  expect(await requireSound(opened)).toBeGreaterThanOrEqual(tasks.length);
  const { damaged } = await rewrapDataKeysOfAll({ ...opened, guard });
  expect(damaged).toBe(0);
  const { rows } = await opened.engine.read({ label: "test", deadlineMs: 5_000 }, (reader) =>
    reader.getRange(systemKeys.bucketKeys(), { limit: 100 }),
  );
  // One of the system and one of the tenant.
  expect(rows).toHaveLength(2);
  const again = await open2(opened);
  expect(await requireSound(again)).toBeGreaterThanOrEqual(tasks.length);
  await again.engine.close({ drainMs: 5_000 });
});

/** Without what the first opening knows. */
async function open2(before: Opened): Promise<Opened> {
  await before.engine.close({ drainMs: 5_000 });
  return open();
}
