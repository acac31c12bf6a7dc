/**
 * A consistent copy of an LMDB environment that other threads and processes may be using and changing: the engine copies one snapshot of it. Pages
 * that are replaced meanwhile stay in the file until the copy is done.
 */
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { StoreError } from "../store.ts";
import { openForReading } from "./environment.ts";

/** The file with the content of an environment. The other files beside it are locks. */
export const DATA_FILE = "data.mdb";

/** Copies the environment in `path` into `folder`, which is created; the folder above it must exist. The copy is on the disk. */
export async function copyEnvironment(path: string, folder: string): Promise<void> {
  if (!existsSync(join(path, DATA_FILE)))
    throw new StoreError("unavailable", "there is no store to copy", { details: { path } });
  const environment = await openForReading(path);
  try {
    mkdirSync(folder, { mode: 0o700 });
    await environment.backup(folder, false).catch((cause: unknown) => {
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
    await environment.close();
  }
}
