/**
 * How the LMDB environment is opened, the same in every thread: LMDB keeps the options with the environment, and a second
 * opening with others fails or silently changes what is durable.
 */
import type { RootDatabase } from "lmdb";

export type Environment = RootDatabase<Buffer, Buffer>;

export interface EnvironmentOptions {
  readonly path: string;
  /** Address space set aside, in bytes; the file only grows as it is used. */
  readonly mapSizeBytes: number;
}

/** Snapshots that may be open at once. Those of one moment share one, so this is moments within the age limit. */
const READERS_MAX = 4_096;

let lastRead: (() => number) | undefined;

export async function openEnvironment({ path, mapSizeBytes }: EnvironmentOptions): Promise<Environment> {
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

/** The engine's count of its commits, by all threads and processes, without a read transaction. */
export function lastTransaction(database: Environment): number {
  // The library has no name of its own for it but the one that also counts the free pages, which reads them all.
  return (database as unknown as { env: { info(): { lastTxnId: number } } }).env.info().lastTxnId;
}

/** Whether the page that this thread read last was written by a transaction, as {@link lastTransaction} counts them. */
export function isOfTransaction(transaction: number): boolean {
  // The library keeps 32 bits of it.
  return lastRead?.() === transaction >>> 0;
}
