/** The free space that a commit of LMDB needs. On a disk that is really full, the engine fails in the middle of a commit, and prints to standard error. */
import { statfsSync } from "node:fs";

/** Below this free space no commit begins. */
const FREE_BYTES_MIN = 2 * 1024 * 1024;
/** A changed key is a copy of its page and of the pages above it. */
const BYTES_PER_BYTE = 4;

/** Undefined when it is unknown. */
export function freeBytes(path: string): number | undefined {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch {
    return undefined;
  }
}

export function isTooFull(free: number | undefined, commitBytes: number): boolean {
  return free !== undefined && free < FREE_BYTES_MIN + BYTES_PER_BYTE * commitBytes;
}
