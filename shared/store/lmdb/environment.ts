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

export async function openEnvironment({ path, mapSizeBytes }: EnvironmentOptions): Promise<Environment> {
  const { open } = await import("lmdb");
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
