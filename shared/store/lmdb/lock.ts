/**
 * Who may have a store directory open: one process that wants it for itself, or any number that agreed to share it.
 *
 * The lock is SQLite's on an empty database file, the only lock of the operating system that Node offers: the kernel
 * releases it when the process dies, however it dies, and it also holds between containers on one machine, where process
 * ids mean nothing. The id beside it is for people.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { StoreError } from "../store.ts";

export interface DirectoryLock {
  release(): void;
}

export type Sharing = "exclusive" | "shared";

/** @throws StoreError `unavailable` with `details` {path, pid} of the holder (`pid` null when unknown). */
export async function lockDirectory(path: string, sharing: Sharing = "exclusive"): Promise<DirectoryLock> {
  const { DatabaseSync } = await import("node:sqlite");
  const database = new DatabaseSync(join(path, "lock.sqlite"));
  const holder = join(path, "lock.pid");
  try {
    acquire(database, sharing);
  } catch (cause) {
    database.close();
    const text = await readFile(holder, "utf8").catch(() => "");
    throw new StoreError("unavailable", "the store directory is in use by another process", {
      details: { path, pid: Number.parseInt(text, 10) || null },
      cause,
    });
  }
  // Only a hint for the next one who comes; a full disk must not prevent opening.
  await writeFile(holder, `${process.pid}\n`).catch(() => undefined);
  return { release: () => database.close() };
}

function acquire(database: DatabaseSync, sharing: Sharing): void {
  database.exec("PRAGMA journal_mode=MEMORY"); // nothing is ever written, so no journal file either
  if (sharing === "exclusive") database.exec("BEGIN EXCLUSIVE");
  // A transaction that has read holds the shared lock until it ends.
  else database.exec("BEGIN; SELECT count(*) FROM sqlite_schema");
}
