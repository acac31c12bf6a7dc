// The SQLite of Node with the interface of better-sqlite3, as far as LangGraph's saver uses it. better-sqlite3 12 ends the pinned Node with an
// assertion when its statements are collected.

import { DatabaseSync, type SQLInputValue } from "node:sqlite";

type Value = SQLInputValue | undefined;

/** The size that better-sqlite3 sets, in KiB. */
const CACHE_KIB = 16_000;

export class SqliteDatabase {
  readonly #database: DatabaseSync;

  /** `isSynced`: a write is on disk before it returns. better-sqlite3 leaves that to the next checkpoint of the log. */
  constructor(path: string, isSynced: boolean) {
    this.#database = new DatabaseSync(path);
    this.pragma(`cache_size = -${CACHE_KIB}`);
    this.pragma(`synchronous = ${isSynced ? "FULL" : "NORMAL"}`);
  }

  pragma(text: string): void {
    this.exec(`PRAGMA ${text}`);
  }

  exec(text: string): void {
    this.#database.exec(text);
  }

  prepare(text: string) {
    const statement = this.#database.prepare(text);
    const bound = (values: readonly Value[]): SQLInputValue[] => values.map((value) => value ?? null);
    return {
      run: (...values: Value[]) => statement.run(...bound(values)),
      get: (...values: Value[]) => statement.get(...bound(values)),
    };
  }
}
