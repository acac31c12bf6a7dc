// A copy of an LMDB environment has the rows of one moment, and no byte of rows that were removed before it.

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { type LmdbEnvironment, openEnvironment } from "../../../../shared/store/lmdb/environment.ts";
import { copyEnvironment } from "../../../../shared/store/lmdb/environment-copy.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { filesWith } from "../../../harness/encryption/raw-bytes.ts";

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

test("a copy that is made during commits has the rows of one moment, and can be written", async () => {
  const store = await openStore(`lmdb:${source}?shared`);
  const keys = Array.from({ length: 200 }, (_, n) => Buffer.from([0x10, n]));
  let round = 0;
  const write = () =>
    store.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => {
      for (const key of keys) tx.set(key, Buffer.alloc(2_500, String(round)));
    });
  const values = async (url: string): Promise<Set<string>> => {
    const opened = await openStore(url);
    try {
      await opened.transact({ ...LOOK, onUnknown: "safe" }, async (tx) => tx.set(Buffer.of(0x11), keys[0]!));
      const found = await opened.read(LOOK, (reader) => Promise.all(keys.map((key) => reader.get(key))));
      return new Set(
        found.map((value) => (value === undefined ? "none" : Buffer.from(value).toString("latin1"))),
      );
    } finally {
      await opened.close({ drainMs: 5_000 });
    }
  };
  await write();
  let isWriting = true;
  const writing = (async () => {
    for (; isWriting; round += 1) await write();
  })();
  try {
    for (let n = 0; n < 5; n += 1) {
      const path = join(folder, `copy-${n}`);
      await expect.poll(() => round, { timeout: 30_000, interval: 1 }).toBeGreaterThan(n);
      await copyEnvironment(source, path);
      const found = await values(`lmdb:${path}`);
      expect(found.size).toBe(1);
      expect(found).not.toContain("none");
    }
  } finally {
    isWriting = false;
    await writing;
    await store.close({ drainMs: 5_000 });
  }
});

test("there is no copy of a store that is missing", async () => {
  await expect(copyEnvironment(source, copy)).rejects.toMatchObject({
    kind: "unavailable",
    details: { path: source },
  });
});
