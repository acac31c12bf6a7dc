/**
 * The LMDB environment, opened with the same options in every thread: LMDB keeps the options with the
 * environment, and a second opening with other options fails or silently changes the durability.
 */
import { chmodSync, closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { RootDatabase, RootDatabaseOptionsWithPath, Transaction } from "lmdb";
import { loadOptional } from "../../runtime/process/optional-package.ts";
import { syncFolder, syncFolders } from "../../runtime/process/whole-file.ts";
import type { KeyRange, KeyValue } from "../store.ts";
import { OpeningLock } from "./opening-lock.ts";

export type LmdbEnvironment = RootDatabase<Buffer, Buffer>;

export interface EnvironmentOptions {
  readonly path: string;
  /** Reserved address space, in bytes; the file only grows with its content. */
  readonly mapSizeBytes: number;
}

/**
 * The limit of open snapshots. Transactions of one moment share one, so this is the number of moments within
 * the age limit.
 */
const READERS_MAX = 4_096;

/** The usual limit of the data. */
export const MAP_SIZE_BYTES = 64 * 2 ** 30;

const FOLDER_MODE = 0o700;
const FILE_MODE = 0o600;
const OTHERS = 0o077;
/** The file with the content of an environment. The other files beside it are locks. */
export const DATA_FILE = "data.mdb";
const FILES = [DATA_FILE, "lock.mdb"];
/** The folder in which a new environment is made, of which a kill may leave a part. Users have no folder of this name. */
const NEW_FOLDER = ".fleet-new-store";

let lastRead: (() => number) | undefined;

export async function openEnvironment({ path, mapSizeBytes }: EnvironmentOptions): Promise<LmdbEnvironment> {
  return openPath(path, { mapSize: mapSizeBytes, maxReaders: READERS_MAX });
}

/** Throws when there is no environment. */
export async function openForReading(path: string): Promise<LmdbEnvironment> {
  return openPath(path, { readOnly: true });
}

/** A new environment that only its caller knows. Its commits are on the disk when the caller has flushed the file. */
export async function openForCopy(path: string): Promise<LmdbEnvironment> {
  return openPath(path, { mapSize: MAP_SIZE_BYTES, noSync: true });
}

async function openPath(
  path: string,
  options: Omit<RootDatabaseOptionsWithPath, "path">,
): Promise<LmdbEnvironment> {
  const { open, ...library } = await loadOptional("the embedded store", ["lmdb"], () => import("lmdb"));
  lastRead = (library as unknown as { getLastTxnId: () => number }).getLastTxnId;
  mkdirSync(path, { recursive: true, mode: FOLDER_MODE });
  const lock = new OpeningLock(path);
  try {
    const openAt = (folder: string): LmdbEnvironment =>
      open({
        path: folder,
        noSubdir: false, // always a directory, even when its name looks like that of a file
        keyEncoding: "binary",
        encoding: "binary",
        // The flush comes before the commit is visible, so that no client acts on data that a power cut erases.
        overlappingSync: false,
        ...options,
      });
    const isDurable = options.readOnly !== true && options.noSync !== true;
    const environment = lock.open(() => {
      if (isDurable) createFile(path, openAt);
      return openAt(path);
    });
    if (options.readOnly !== true) keepPrivate(path);
    // Of a file, the engine syncs the content and not the name. No commit of this version precedes this line, also when a process is killed before it.
    if (isDurable && lastTransaction(environment) === 0) syncFolder(path);
    return environment;
  } finally {
    lock.close();
  }
}

/**
 * Creates the file of a new environment whole. The engine writes the first pages without a sync, and a process that finds only a part of
 * them after a power cut is killed by it.
 */
function createFile(path: string, open: (folder: string) => LmdbEnvironment): void {
  const file = join(path, DATA_FILE);
  const own = join(path, NEW_FOLDER);
  rmSync(own, { recursive: true, force: true });
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0) return;
  mkdirSync(own, { mode: FOLDER_MODE });
  // Without a transaction in progress it is closed at once.
  void open(own).close();
  const made = openSync(join(own, DATA_FILE), "r+");
  try {
    fsyncSync(made);
  } finally {
    closeSync(made);
  }
  // First, so that the folders above a file that is in its place are on the disk, also after a kill between the two.
  syncFolders(path);
  renameSync(join(own, DATA_FILE), file);
  rmSync(own, { recursive: true, force: true });
}

/** The engine gives its files the mode of the process, so that others could read them in a folder that a user has opened to them. */
function keepPrivate(path: string): void {
  for (const name of FILES) {
    const file = join(path, name);
    const { mode, uid } = statSync(file);
    // A file of another user has the mode that its owner gave it.
    if ((mode & OTHERS) === 0 || uid !== process.getuid?.()) continue;
    try {
      chmodSync(file, FILE_MODE);
    } catch {
      // A file system without modes, as on some removable disks: its mount says who may read.
    }
  }
}

/** Reads a half-open range, in either direction, as copies. */
export function rowsOf(
  database: LmdbEnvironment,
  range: KeyRange,
  { limit, reverse = false, transaction }: { limit: number; reverse?: boolean; transaction?: Transaction },
): KeyValue[] {
  const begin = Buffer.from(range.begin);
  const end = Buffer.from(range.end);
  // The engine's own reverse range includes where it starts and excludes where it ends: the wrong way round.
  const bounds = reverse
    ? { start: end, end: begin, reverse, exclusiveStart: true, inclusiveEnd: true }
    : { start: begin, end };
  const rows = database.getRange({ ...bounds, limit, ...(transaction && { transaction }) });
  return [...rows].map(({ key, value }) => ({ key, value }));
}

/** The engine's count of commits by all threads and processes, without a read transaction. */
export function lastTransaction(database: LmdbEnvironment): number {
  // The library's public function for it also counts the free pages, and reads them all for that.
  return (database as unknown as { env: { info(): { lastTxnId: number } } }).env.info().lastTxnId;
}

/**
 * Whether the page that this thread read last was written by the transaction with this number
 * ({@link lastTransaction}).
 */
export function isOfTransaction(transaction: number): boolean {
  // The library keeps its lower 32 bits.
  return lastRead?.() === transaction >>> 0;
}
