/**
 * How the LMDB environment is opened, the same in every thread: LMDB keeps the options with the environment, and a second
 * opening with others fails or silently changes what is durable.
 */
import type { RootDatabase, Transaction } from "lmdb";
import type { KeyRange, KeyValue } from "../store.ts";

export type LmdbEnvironment = RootDatabase<Buffer, Buffer>;

export interface EnvironmentOptions {
  readonly path: string;
  /** Address space set aside, in bytes; the file only grows as it is used. */
  readonly mapSizeBytes: number;
}

/** Snapshots that may be open at once. Those of one moment share one, so this is moments within the age limit. */
const READERS_MAX = 4_096;

let lastRead: (() => number) | undefined;

export async function openEnvironment({ path, mapSizeBytes }: EnvironmentOptions): Promise<LmdbEnvironment> {
  const { open, ...library } = await import("lmdb");
  lastRead = (library as unknown as { getLastTxnId: () => number }).getLastTxnId;
  return open({
    path,
    noSubdir: false, // always a directory, also when its name looks like a file's
    mapSize: mapSizeBytes,
    maxReaders: READERS_MAX,
    keyEncoding: "binary",
    encoding: "binary",
    // The flush comes before the commit becomes visible: nobody acts on something that a power cut erases.
    overlappingSync: false,
  });
}

/** A half-open range, in either direction, as copies. */
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

/** The engine's count of its commits, by all threads and processes, without a read transaction. */
export function lastTransaction(database: LmdbEnvironment): number {
  // The library has no name of its own for it but the one that also counts the free pages, which reads them all.
  return (database as unknown as { env: { info(): { lastTxnId: number } } }).env.info().lastTxnId;
}

/** Whether the page that this thread read last was written by a transaction, as {@link lastTransaction} counts them. */
export function isOfTransaction(transaction: number): boolean {
  // The library keeps 32 bits of it.
  return lastRead?.() === transaction >>> 0;
}
