/** The locks of SQLite on simulated files, as far as the locks of folders use them. The end of a process releases what it holds. */
import { createRequire } from "node:module";
import { currentProcess, type SimulatedProcess } from "../time/processes.ts";

const SQLITE_BUSY = 5;

interface Holder {
  readonly database: object;
  readonly process: SimulatedProcess | undefined;
  readonly isExclusive: boolean;
}

export class FolderLocks {
  readonly #holders = new Map<string, Holder[]>();

  /** Throws the error of SQLite if another holder is in the way. */
  acquire(path: string, database: object, isExclusive: boolean): void {
    const alive = (this.#holders.get(path) ?? []).filter(({ process }) => process?.isAlive !== false);
    const others = alive.filter((holder) => holder.database !== database);
    if (others.some((holder) => holder.isExclusive || isExclusive))
      throw Object.assign(new Error("database is locked"), { errcode: SQLITE_BUSY });
    this.#holders.set(path, [...others, { database, process: currentProcess(), isExclusive }]);
  }

  release(path: string, database: object): void {
    const left = (this.#holders.get(path) ?? []).filter((holder) => holder.database !== database);
    this.#holders.set(path, left);
  }
}

/** `locksOf`: those of the active simulation, if the path is one of its files. */
export function replaceDatabases(locksOf: (path: string) => FolderLocks | undefined): void {
  const sqlite = createRequire(import.meta.url)("node:sqlite") as { DatabaseSync: typeof Function };
  const Real = sqlite.DatabaseSync as unknown as new (...args: unknown[]) => object;

  class LockDatabase {
    readonly #path: string;
    readonly #locks: FolderLocks;
    isOpen = true;

    constructor(path: string, locks: FolderLocks) {
      this.#path = path;
      this.#locks = locks;
    }

    exec(sql: string): void {
      if (sql.startsWith("BEGIN")) this.#locks.acquire(this.#path, this, sql.startsWith("BEGIN EXCLUSIVE"));
    }

    close(): void {
      this.isOpen = false;
      this.#locks.release(this.#path, this);
    }
  }

  const replaced = new Proxy(Real, {
    construct(target, args: unknown[], newTarget) {
      const path = String(args[0]);
      const locks = locksOf(path);
      return locks === undefined
        ? (Reflect.construct(target, args, newTarget) as object)
        : new LockDatabase(path, locks);
    },
  });
  Object.defineProperty(sqlite, "DatabaseSync", { value: replaced, configurable: true, writable: true });
}
