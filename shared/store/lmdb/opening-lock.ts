/**
 * The lock that keeps openings of an environment apart from commits to it.
 *
 * While LMDB opens an environment, it reads the number of the newest commit from the file, and then writes it into the memory that all
 * processes share (`mdb_env_open2` in its mdb.c). It holds no lock meanwhile. After one commit in between, the next commit begins from the
 * state before it, and an acknowledged commit is lost. After two, every commit fails until the environment is closed everywhere. So an opening
 * holds this lock alone, and each commit holds it with others.
 *
 * It consists of two locks that end with their process. An opening holds the first while it waits for the second, and a commit passes the
 * first before it shares the second. So commits that overlap for ever cannot keep an opening waiting. All processes of a store must have a
 * Node with SQLite, or all one without it.
 */
import { join } from "node:path";
import { loadSqlite } from "../../runtime/process/folder-lock.ts";
import { ClaimLock } from "./claim-lock.ts";
import type { SharedLock } from "./shared-lock.ts";
import { SqliteLock } from "./sqlite-lock.ts";

/** The same in every version of Fleet, so that two versions exclude each other. */
const NAMES = { openings: "openings", commits: "commits" };
/** Longer than any commit takes on a disk that works. */
const WAIT_MS = 30_000;

export class OpeningLock {
  readonly #openings: SharedLock;
  readonly #commits: SharedLock;

  /** Throws when the folder is missing or cannot be written. `waitMs` is the limit of each wait for other processes. */
  constructor(folder: string, { waitMs = WAIT_MS }: { readonly waitMs?: number } = {}) {
    const sqlite = loadSqlite();
    const make = (name: string): SharedLock =>
      sqlite === undefined
        ? new ClaimLock(join(folder, name), waitMs)
        : new SqliteLock(sqlite, join(folder, `${name}.sqlite`), waitMs);
    this.#openings = make(NAMES.openings);
    this.#commits = make(NAMES.commits);
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
