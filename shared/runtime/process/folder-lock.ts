/**
 * The lock of a folder: one holder, or any number of holders that agreed to share it.
 *
 * It is SQLite's lock on an empty database file, the only lock of the operating system that Node offers. The
 * kernel releases it when the process dies, in any way. It holds between the threads of one process, and
 * between containers on one machine, where process ids mean nothing. The process id beside it is for operators.
 * A Node without SQLite sees only the claims of the holders, so every holder adds one.
 */
import { accessSync, constants, existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { claimFolder, type Sharing } from "./folder-claims.ts";

export type { Sharing } from "./folder-claims.ts";

export interface FolderLock {
  /** Further calls do nothing. */
  release(): void;
}

export interface FolderLockOptions {
  /** Default `exclusive`. */
  readonly sharing?: Sharing;
  /**
   * Blocks this thread for so many milliseconds at most while the lock is held elsewhere. Of several that
   * start at once, one wins.
   */
  readonly waitMs?: number;
}

const SQLITE_BUSY = 5;
const WAIT_MS = 200;
/** The same in every version of Fleet, so that two versions exclude each other. */
const LOCK = "lock.sqlite";
const HOLDER = "lock.pid";

const sqlite = loadSqlite();

/** Undefined while the lock is held elsewhere. Throws when the folder is missing, or it or its lock may not be written. */
export function lockFolder(folder: string, options: FolderLockOptions = {}): FolderLock | undefined {
  const { sharing = "exclusive", waitMs = WAIT_MS } = options;
  // SQLite's own error names no cause, and looks like that of a broken file.
  accessSync(folder, constants.W_OK);
  const path = join(folder, LOCK);
  if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK);
  const database = sqlite === undefined ? null : lockDatabase(sqlite, folder, { sharing, waitMs });
  if (database === undefined) return undefined;
  const close = () => void (database?.isOpen && database.close());
  try {
    const claim = claimBeside(database, folder, { sharing, waitMs });
    if (claim === undefined) {
      close();
      return undefined;
    }
    noteHolder(folder);
    return {
      release() {
        claim.release();
        close();
      },
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** Undefined for a Node without SQLite. */
export function loadSqlite(): typeof import("node:sqlite") | undefined {
  try {
    return createRequire(import.meta.url)("node:sqlite") as typeof import("node:sqlite");
  } catch {
    return undefined;
  }
}

function lockDatabase(
  { DatabaseSync }: typeof import("node:sqlite"),
  folder: string,
  { sharing, waitMs }: Required<FolderLockOptions>,
): DatabaseSync | undefined {
  const database = new DatabaseSync(join(folder, LOCK), { timeout: waitMs });
  try {
    acquire(database, sharing);
    return database;
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return undefined;
    throw error;
  }
}

/** Beside the lock of a database the claim only warns processes without SQLite, so a full disk must not prevent the lock. */
function claimBeside(
  database: DatabaseSync | null,
  folder: string,
  options: Required<FolderLockOptions>,
): FolderLock | undefined {
  try {
    return claimFolder(folder, { ...options, ignoreOwn: database !== null });
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (database !== null && (code === "ENOSPC" || code === "EDQUOT")) return { release: () => {} };
    throw error;
  }
}

/** The process that last took the lock; null when unknown. A hint for operators, nothing else. */
export function lockHolder(folder: string): number | null {
  try {
    return Number.parseInt(readFileSync(join(folder, HOLDER), "utf8"), 10) || null;
  } catch {
    return null;
  }
}

function acquire(database: DatabaseSync, sharing: Sharing): void {
  database.exec("PRAGMA journal_mode=MEMORY"); // nothing is ever written, so no journal file either
  if (sharing === "exclusive") database.exec("BEGIN EXCLUSIVE");
  // A transaction that has read holds the shared lock until it ends.
  else database.exec("BEGIN; SELECT count(*) FROM sqlite_schema");
}

function noteHolder(folder: string): void {
  try {
    writeFileSync(join(folder, HOLDER), `${process.pid}\n`);
  } catch {
    // A full disk must not prevent the lock.
  }
}
