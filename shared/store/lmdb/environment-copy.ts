/**
 * A consistent copy of an LMDB environment that other threads and processes may be using and changing: the rows of one snapshot, written into a new
 * environment. Pages that are replaced meanwhile stay in the file until the copy is done.
 *
 * The copies of the engine itself would keep bytes of removed rows: its plain copy has the free pages, and its compacting copy the keys of removed
 * rows in the inner pages of the tree (`mdb_env_cwalk` in its mdb.c).
 */
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "../store.ts";
import { DATA_FILE, type LmdbEnvironment, openForCopy, openForReading } from "./environment.ts";
import { freeBytes, isTooFull } from "./free-space.ts";

const COMMIT_BYTES = 256 * 1024;
/** As the engine itself calls it. */
const FULL = "No space left on device";

/** Copies the environment in `path` into `folder`, which is created; the folder above it must exist. The copy is on the disk. */
export async function copyEnvironment(path: string, folder: string): Promise<void> {
  if (!existsSync(join(path, DATA_FILE)))
    throw new StoreError("unavailable", "there is no store to copy", { details: { path } });
  const from = await openForReading(path);
  try {
    mkdirSync(folder, { mode: 0o700 });
    await copyRows(from, folder).catch((cause: unknown) => {
      const problem = cause instanceof Error ? cause.message : String(cause);
      throw new StoreError("unavailable", "the store cannot be copied", {
        details: { path, folder, problem },
        cause,
      });
    });
    const file = openSync(join(folder, DATA_FILE), "r+");
    fsyncSync(file);
    closeSync(file);
  } finally {
    await from.close();
  }
}

async function copyRows(from: LmdbEnvironment, folder: string): Promise<void> {
  // The locks of an environment need space too.
  requireSpace(folder, COMMIT_BYTES);
  const to = await openForCopy(folder);
  const snapshot = from.useReadTransaction();
  try {
    let rows: { readonly key: Buffer; readonly value: Buffer }[] = [];
    let size = 0;
    const commit = (): void => {
      requireSpace(folder, size);
      to.transactionSync(() => {
        // Nothing is returned: the result of `put` would make the engine transaction asynchronous.
        for (const { key, value } of rows) to.put(key, value);
      });
      rows = [];
      size = 0;
    };
    for (const row of from.getRange({ transaction: snapshot })) {
      rows.push(row);
      size += row.key.length + row.value.length;
      if (size >= COMMIT_BYTES) commit();
    }
    commit();
  } finally {
    snapshot.done();
    await to.close();
  }
}

function requireSpace(folder: string, size: number): void {
  if (isTooFull(freeBytes(folder), size)) throw new Error(FULL);
}
