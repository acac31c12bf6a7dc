/**
 * The embedded store: LMDB in this process, the default for one machine. Optimistic transactions over snapshots read
 * here, compared and applied by a worker thread, many per disk flush.
 *
 * Not for a directory on a network file system, and not for two processes: the second is refused.
 */
import { mkdir } from "node:fs/promises";
import { resolve } from "node:path";
import { type Clock, systemClock } from "../../runtime/clock.ts";
import { CommitThread } from "../lmdb/commit-thread.ts";
import { type Environment, openEnvironment } from "../lmdb/environment.ts";
import { type DirectoryLock, lockDirectory } from "../lmdb/lock.ts";
import { Snapshots } from "../lmdb/snapshots.ts";
import type { BatchResult, Slab } from "../optimistic/commit.ts";
import type { Snapshot } from "../optimistic/snapshot.ts";
import { type Engine, OptimisticStore } from "../optimistic/store.ts";
import { type Store, StoreError } from "../store.ts";

export interface LmdbOptions {
  /** A directory; made when missing. */
  readonly path: string;
  /** Upper bound of the data, in bytes; only address space is set aside. Default 64 GiB. */
  readonly mapSizeBytes?: number;
  /** Measures the age of transactions. */
  readonly clock?: Clock;
}

const MAP_SIZE_BYTES = 64 * 2 ** 30;

/**
 * Opens the directory, alone.
 * @throws StoreError `unavailable` when another process has it (`details` {path, pid}) or it cannot be opened.
 */
export async function openLmdb(options: LmdbOptions): Promise<Store> {
  const path = resolve(options.path);
  const clock = options.clock ?? systemClock;
  const environment = { path, mapSizeBytes: options.mapSizeBytes ?? MAP_SIZE_BYTES };
  await mkdir(path, { recursive: true, mode: 0o700 });
  const lock = await lockDirectory(path);
  let database: Environment | undefined;
  try {
    database = await openEnvironment(environment);
    const thread = await CommitThread.start(environment);
    return new OptimisticStore(new LmdbEngine({ database, thread, lock, clock }), clock);
  } catch (cause) {
    await database?.close();
    lock.release();
    throw new StoreError("unavailable", "the store directory could not be opened", {
      details: { path },
      cause,
    });
  }
}

interface Parts {
  readonly database: Environment;
  readonly thread: CommitThread;
  readonly lock: DirectoryLock;
  readonly clock: Clock;
}

class LmdbEngine implements Engine {
  readonly name = "lmdb";
  readonly #parts: Parts;
  readonly #snapshots: Snapshots;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#snapshots = new Snapshots(parts.database, parts.clock);
  }

  snapshot(): Snapshot {
    this.#parts.thread.check();
    return this.#snapshots.take();
  }

  async commit(slabs: Slab[]): Promise<BatchResult> {
    try {
      return await this.#parts.thread.commit(slabs);
    } finally {
      this.#snapshots.renew();
    }
  }

  async close(): Promise<void> {
    const { database, thread, lock } = this.#parts;
    this.#snapshots.close();
    // A thread that hangs in the engine still uses what closing would free. Then the process keeps it, and the lock.
    if (!(await thread.close())) return;
    await database.close();
    lock.release();
  }
}
