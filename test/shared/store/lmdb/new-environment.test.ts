// A new environment is made beside its place, because the engine is killed by a file of which a power cut has kept a part.

import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openEnvironment } from "../../../../shared/store/lmdb/environment.ts";

const KEY = Buffer.from("key");
/** The name by which a part of a new environment is left. */
const LEFT = ".fleet-new-store";
const PAGE_BYTES = 4_096;
let path: string;
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), "fleet-new-environment-"));
});
afterEach(() => rmSync(path, { recursive: true, force: true }));

const open = () => openEnvironment({ path, mapSizeBytes: 2 ** 30 });

test("what a power cut has left of the making of an environment is replaced", async () => {
  mkdirSync(join(path, LEFT));
  writeFileSync(join(path, LEFT, "data.mdb"), Buffer.alloc(PAGE_BYTES));
  writeFileSync(join(path, LEFT, "lock.mdb"), Buffer.alloc(PAGE_BYTES));
  writeFileSync(join(path, "data.mdb"), "");
  const environment = await open();
  environment.transactionSync(() => void environment.put(KEY, Buffer.from("value")));
  await environment.close();
  expect(readdirSync(path)).not.toContain(LEFT);
});

test("an environment with commits is opened as it is, also with such a folder beside it", async () => {
  const first = await open();
  first.transactionSync(() => void first.put(KEY, Buffer.from("value")));
  await first.close();
  mkdirSync(join(path, LEFT));
  // A folder of the user.
  mkdirSync(join(path, "new"));
  const again = await open();
  expect(again.get(KEY)?.toString()).toBe("value");
  await again.close();
  expect(readdirSync(path)).not.toContain(LEFT);
  expect(readdirSync(path)).toContain("new");
});
