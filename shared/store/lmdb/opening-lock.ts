/**
 * The lock that keeps openings of an environment apart from commits to it.
 *
 * While LMDB opens an environment, it reads the number of the newest commit from the file, and then writes it into the memory that all
 * processes share (`mdb_env_open2` in its mdb.c). It holds no lock meanwhile. After one commit in between, the next commit begins from the
 * state before it, and an acknowledged commit is lost. After two, every commit fails until the environment is closed everywhere. So an opening
 * holds this lock alone, and each commit holds it with others.
 *
 * It consists of SQLite's locks on two empty database files, as in folder-lock.ts. The kernel releases them when the process dies. An opening
 * locks the first file while it waits for the second one, and a commit passes the first file before it shares the second one. So commits
 * that overlap for ever cannot keep an opening waiting.
 */
import { createRequire } from "node:module";
import { join } from "node:path";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { StoreError } from "../store.ts";

/** The same in every version of Fleet, so that two versions exclude each other. */
const FILES = { openings: "openings.sqlite", commits: "commits.sqlite" };
/** Longer than any commit takes on a disk that works. */
const WAIT_MS = 30_000;
const SQLITE_BUSY = 5;

export class OpeningLock {
  readonly #openings: LockFile;
  readonly #commits: LockFile;

  /** Throws when the folder is missing or cannot be written. `waitMs` is the limit of each wait for other processes. */
  constructor(folder: string, { waitMs = WAIT_MS }: { readonly waitMs?: number } = {}) {
    this.#openings = new LockFile(join(folder, FILES.openings), waitMs);
    this.#commits = new LockFile(join(folder, FILES.commits), waitMs);
  }

  /** Runs a commit, and blocks this thread while an opening is in progress. Throws StoreError `unavailable`, without a commit. */
  commit<T>(work: () => T): T {
    this.#openings.pass();
    return this.#commits.share(work);
  }

  /** Runs an opening, and blocks this thread while commits are in progress. Throws StoreError `unavailable`, without an opening. */
  open<T>(work: () => T): T {
    return this.#openings.takeAlone(() => this.#commits.takeAlone(work));
  }

  close(): void {
    this.#openings.close();
    this.#commits.close();
  }
}

class LockFile {
  readonly #database: DatabaseSync;
  readonly #begin: StatementSync;
  readonly #read: StatementSync;
  readonly #end: StatementSync;

  constructor(path: string, waitMs: number) {
    // Loaded here, because the SDK has no store, and runs on a Node without SQLite.
    const sqlite = createRequire(import.meta.url)("node:sqlite") as typeof import("node:sqlite");
    this.#database = new sqlite.DatabaseSync(path, { timeout: waitMs });
    this.#begin = this.#database.prepare("BEGIN");
    this.#read = this.#database.prepare("SELECT count(*) FROM sqlite_schema");
    this.#end = this.#database.prepare("COMMIT");
  }

  /** Takes the shared lock and releases it. */
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
      const message = isBusy
        ? "another process opens or changes the store for too long"
        : "the store cannot be locked";
      throw new StoreError("unavailable", message, { cause });
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
