/**
 * Small files that survive a kill or a full disk: written completely or not at all, and by default readable
 * only by the user who owns them.
 */
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";

const OWNER_ONLY = 0o600;

/** Replaces the file. Its content is on disk when this returns. */
export function writeWhole(path: string, content: string | Uint8Array, mode = OWNER_ONLY): void {
  renameSync(written(path, content, mode), path);
  syncFolder(dirname(path));
}

/** Creates the file like {@link writeWhole}; false if another process created it first. */
export function writeOnce(path: string, content: string): boolean {
  const own = written(path, content);
  try {
    linkSync(own, path);
    syncFolder(dirname(path));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    rmSync(own, { force: true });
  }
}

/** undefined if the file does not exist. Throws if it is not JSON. */
export function readJson<T>(path: string): T | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

function written(path: string, content: string | Uint8Array, mode = OWNER_ONLY): string {
  const own = `${path}.${process.pid}`;
  const file = openSync(own, "w", mode);
  try {
    const bytes = typeof content === "string" ? Buffer.from(content) : content;
    for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done);
    fsyncSync(file);
    return own;
  } catch (error) {
    rmSync(own, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

/** The names of new files in the folder survive a power cut. */
export function syncFolder(path: string): void {
  const folder = openSync(path, "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}
