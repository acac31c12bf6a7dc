/**
 * The embedded store: LMDB in this process, the default for one machine. Optimistic transactions over
 * snapshots are read here, and compared and applied by a worker thread, many per disk flush.
 *
 * Not for a directory on a network file system. A second process is refused unless all of them open it as
 * `shared`. Then threads and processes of one machine read and commit side by side: the engine's own lock
 * puts their commits in one order, each batch is compared with the state before it, and the commit counter is
 * in the store itself, so nothing else needs agreement.
 */
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { type Clock, systemClock } from "../../runtime/clock.ts";
import { type FolderLock, lockFolder, lockHolder, type Sharing } from "../../runtime/process/folder-lock.ts";
import { StartupError } from "../../runtime/process/startup.ts";
import { CommitThread } from "../lmdb/commit-thread.ts";
import { CommitWatch } from "../lmdb/commit-watch.ts";
import { DATA_FILE, type LmdbEnvironment, MAP_SIZE_BYTES, openEnvironment } from "../lmdb/environment.ts";
import { reportWrites } from "../lmdb/file-writes.ts";
import { requireRestored } from "../lmdb/prepared-restore.ts";
import { Snapshots } from "../lmdb/snapshots.ts";
import type { BatchResult, Slab } from "../optimistic/commit.ts";
import type { Engine, Snapshot } from "../optimistic/engine.ts";
import { OptimisticStore } from "../optimistic/store.ts";
import { type Store, StoreError } from "../store.ts";

export interface LmdbOptions {
  /** The directory, which is created if missing. */
  readonly path: string;
  /** The limit of the data, in bytes; only address space is reserved. Default 64 GiB. */
  readonly mapSizeBytes?: number;
  /** Default `exclusive`. */
  readonly sharing?: Sharing;
  /** Measures the age of transactions. */
  readonly clock?: Clock;
}

/**
 * A killed process leaves its snapshots behind, and the pages that they pin are not reused until another
 * process removes them.
 */
const DEAD_READERS_MS = 10_000;

/**
 * Opens the directory, for this process alone or shared with others that open it as shared.
 * @throws StoreError `unavailable` when another process has it (`details` {path, pid}), when it is not permitted or
 *   cannot be made (`details` {path, problem}), or when it cannot be opened. StartupError when the package `lmdb` is not installed, or
 *   when a restore into the directory has not ended.
 */
export async function openLmdb(options: LmdbOptions): Promise<Store> {
  const path = resolve(options.path);
  requireRestored(path);
  const clock = options.clock ?? systemClock;
  const environment = { path, mapSizeBytes: options.mapSizeBytes ?? MAP_SIZE_BYTES };
  const sharing = options.sharing ?? "exclusive";
  const lock = await lockDirectory(path, sharing);
  if (lock === undefined) {
    throw new StoreError("unavailable", "the store directory is in use by another process", {
      details: { path, pid: lockHolder(path) },
    });
  }
  let database: LmdbEnvironment | undefined;
  try {
    database = await openEnvironment(environment);
    const thread = await CommitThread.start(environment);
    return new OptimisticStore(new LmdbEngine({ path, database, thread, lock, clock, sharing }), clock);
  } catch (cause) {
    await database?.close();
    lock.release();
    if (cause instanceof StartupError) throw cause;
    throw new StoreError("unavailable", "the store directory could not be opened", {
      details: { path },
      cause,
    });
  }
}

/** Undefined while another process has the directory. */
async function lockDirectory(path: string, sharing: Sharing): Promise<FolderLock | undefined> {
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    return lockFolder(path, { sharing });
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : String(cause);
    throw new StoreError("unavailable", "the store directory cannot be used", {
      details: { path, problem },
      cause,
    });
  }
}

interface Parts {
  readonly path: string;
  readonly database: LmdbEnvironment;
  readonly thread: CommitThread;
  readonly lock: FolderLock;
  readonly clock: Clock;
  readonly sharing: Sharing;
}

class LmdbEngine implements Engine {
  readonly name = "lmdb";
  readonly paceMs = 5;
  readonly #parts: Parts;
  readonly #snapshots: Snapshots;
  readonly #watch: CommitWatch;
  #readerChecks: NodeJS.Timeout | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#snapshots = new Snapshots(parts.database, parts.clock);
    this.#watch = new CommitWatch({
      commits: () => this.#snapshots.commits(),
      clock: parts.clock,
      onWrite: (written) => reportWrites(join(parts.path, DATA_FILE), written),
    });
  }

  snapshot(): Snapshot {
    this.#parts.thread.check();
    return this.#snapshots.take();
  }

  commit(slabs: Slab[]): Promise<BatchResult> {
    return this.#watch.own(() => this.#parts.thread.commit(slabs));
  }

  watch(noticed: () => void): void {
    const { database, sharing } = this.#parts;
    if (sharing === "exclusive") return;
    this.#watch.start(noticed);
    this.#readerChecks = setInterval(() => database.readerCheck(), DEAD_READERS_MS).unref();
  }

  async close(): Promise<void> {
    const { database, thread, lock } = this.#parts;
    this.#watch.stop();
    clearInterval(this.#readerChecks);
    this.#snapshots.close();
    // A thread that hangs in the engine still uses the memory that closing would free. Then the process keeps
    // both it and the lock.
    if (!(await thread.close())) return;
    await database.close();
    lock.release();
  }
}
