/** SQLite's lock on an empty database file, as in folder-lock.ts. The kernel releases it when the process dies. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { heldTooLong, notLockable, type SharedLock } from "./shared-lock.ts";

const SQLITE_BUSY = 5;

export class SqliteLock implements SharedLock {
  readonly #database: DatabaseSync;
  readonly #begin: StatementSync;
  readonly #read: StatementSync;
  readonly #end: StatementSync;

  constructor(sqlite: typeof import("node:sqlite"), path: string, waitMs: number) {
    this.#database = new sqlite.DatabaseSync(path, { timeout: waitMs });
    this.#begin = this.#database.prepare("BEGIN");
    this.#read = this.#database.prepare("SELECT count(*) FROM sqlite_schema");
    this.#end = this.#database.prepare("COMMIT");
  }

  pass(): void {
    this.#acquire(() => void this.#read.get());
  }

  share<T>(work: () => T): T {
    this.#acquire(() => {
      this.#begin.run();
      // A transaction that has read holds the shared lock until it ends.
      this.#read.get();
    });
    return this.#hold(work);
  }

  takeAlone<T>(work: () => T): T {
    // Nothing is ever written, so no journal file either.
    this.#acquire(() => this.#database.exec("PRAGMA journal_mode=MEMORY; BEGIN EXCLUSIVE"));
    return this.#hold(work);
  }

  close(): void {
    this.#database.close();
  }

  #acquire(statements: () => void): void {
    try {
      statements();
    } catch (cause) {
      if (this.#database.isTransaction) this.#end.run();
      const isBusy = (cause as { errcode?: number }).errcode === SQLITE_BUSY;
      throw isBusy ? heldTooLong(cause) : notLockable(cause);
    }
  }

  #hold<T>(work: () => T): T {
    try {
      return work();
    } finally {
      this.#end.run();
    }
  }
}
