// A copy of an LMDB environment has the rows of one moment, and no byte of rows that were removed before it.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { type LmdbEnvironment, openEnvironment } from "../../../../shared/store/lmdb/environment.ts";
import { copyEnvironment } from "../../../../shared/store/lmdb/environment-copy.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { filesWith } from "../../../harness/encryption/raw-bytes.ts";
import { commitsIn, logKey, ROUND_KEYS, roundValue } from "./committed-rows.ts";

const COMMITTER = new URL("./committer.program.ts", import.meta.url).pathname;
const CANARY = "canary1d5e0c9b73a84f26";
const MAP_SIZE_BYTES = 2 ** 30;
const LOOK = { label: "test", deadlineMs: 30_000 } as const;

let folder: string;
let source: string;
let copy: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-copy-"));
  source = join(folder, "source");
  copy = join(folder, "copy");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function open(path: string): Promise<LmdbEnvironment> {
  const environment = await openEnvironment({ path, mapSizeBytes: MAP_SIZE_BYTES });
  onTestFinished(() => environment.close());
  return environment;
}

const rowsOf = (environment: LmdbEnvironment) =>
  [...environment.getRange({})].map(({ key, value }) => [key.toString("latin1"), value.toString("latin1")]);

test("a copy has all rows, and neither removed values nor removed keys", async () => {
  const environment = await open(source);
  const count = 3_000;
  const removed = Array.from({ length: count }, (_, n) => Buffer.from(`word-${n}-${CANARY}-${n}`));
  environment.transactionSync(() => {
    for (const [n, key] of removed.entries()) {
      environment.put(key, Buffer.alloc(0));
      environment.put(Buffer.from(`row-${n}`), Buffer.alloc(50 + ((n * 37) % 6_000), `${CANARY} `));
    }
  });
  for (let from = 0; from < count; from += 100)
    environment.transactionSync(() => {
      for (let n = from; n < from + 100; n += 1) {
        environment.remove(removed[n]!);
        // Beside each removed key, so that pages of keys stay, with the keys above them that began them.
        environment.put(Buffer.from(`word-${n}-`), Buffer.alloc(n % 3));
        environment.put(Buffer.from(`row-${n}`), randomBytes(50 + ((n * 41) % 6_000)));
      }
    });
  const rows = rowsOf(environment);
  expect(rows).toHaveLength(2 * count);
  expect(rows.flat().filter((text) => text.includes(CANARY))).toEqual([]);
  expect(filesWith(source, CANARY)).not.toEqual([]);
  await copyEnvironment(source, copy);
  expect(filesWith(copy, CANARY)).toEqual([]);
  expect(rowsOf(await open(copy))).toEqual(rows);
});

/** Between the rows that change, so that a copy takes many commits of the other process. */
const STILL = Array.from({ length: 4_000 }, (_, n) => Buffer.of(n % 2 === 0 ? 0x20 : 0x40, n >> 8, n & 0xff));

/** The commits that a copy has. It accepts another one. */
async function commitsOf(path: string): Promise<number> {
  const environment = await openEnvironment({ path, mapSizeBytes: MAP_SIZE_BYTES });
  try {
    const rows = [...environment.getRange({})];
    environment.transactionSync(() => void environment.put(logKey(0), roundValue(0)));
    expect(environment.get(logKey(0))).toEqual(roundValue(0));
    return commitsIn(rows);
  } finally {
    await environment.close();
  }
}

test("a copy that is made during commits has the first of them alone, and can be written", {
  timeout: 240_000,
}, async () => {
  const url = `lmdb:${source}?shared`;
  const store = await openStore(url);
  onTestFinished(() => store.close({ drainMs: 5_000 }));
  for (let from = 0; from < STILL.length; from += 50)
    await store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => {
      for (const key of STILL.slice(from, from + 50)) tx.set(key, Buffer.alloc(8_000, "still"));
    });
  const committer = spawn(process.execPath, [COMMITTER, url], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void committer.kill("SIGKILL"));
  const ended = once(committer, "exit");
  await once(committer.stdout, "data");
  let overlaps = 0;
  // The other process commits all the time, but the machine may give it no time during one of the copies.
  for (let n = 0; overlaps < 3; n += 1) {
    expect(n, "copies without commits meanwhile").toBeLessThan(100);
    await copyEnvironment(source, copy);
    const now = await store.read(LOOK, (reader) => reader.get(ROUND_KEYS[0]!));
    const later = Number.parseInt(Buffer.from(now!).toString("latin1"), 10) - (await commitsOf(copy));
    expect(later).toBeGreaterThanOrEqual(0);
    // One may be of the time after the copy.
    if (later >= 2) overlaps += 1;
    rmSync(copy, { recursive: true });
  }
  committer.stdin.end();
  expect(await ended).toEqual([0, null]);
});

test("there is no copy of a store that is missing", async () => {
  await expect(copyEnvironment(source, copy)).rejects.toMatchObject({
    kind: "unavailable",
    details: { path: source },
  });
});
