/**
 * Small files that survive a kill or a full disk: written completely or not at all, and by default readable
 * only by the user who owns them.
 */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { ERROR_TABLE } from "../../protocol/errors.ts";
import { StartupError } from "./startup.ts";

const OWNER_ONLY = 0o600;

/** Replaces the file. Its content is on disk when this returns. */
export function writeWhole(path: string, content: string | Uint8Array, mode = OWNER_ONLY): void {
  const own = written(path, content, mode);
  try {
    renameSync(own, path);
  } catch (error) {
    rmSync(own, { force: true });
    throw error;
  }
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

/** The end of the name of a file that is being written: the process, and a random number. */
const UNFINISHED = /\.\d+\.[0-9a-f]{8}$/;
/** A file is written in milliseconds. A writer that pauses longer fails, and writes nothing. */
const UNFINISHED_MS = 60_000;

/**
 * Removes what killed writers have left of files with these names, and returns its number. The process ids say nothing about the writers: containers may
 * share the folder.
 */
export function removeUnfinished(folder: string, isOf: (name: string) => boolean): number {
  const left = readdirSync(folder).filter((name) => {
    if (!UNFINISHED.test(name) || !isOf(name.replace(UNFINISHED, ""))) return false;
    const found = statSync(join(folder, name), { throwIfNoEntry: false });
    return found !== undefined && Date.now() - found.mtimeMs > UNFINISHED_MS;
  });
  for (const name of left) rmSync(join(folder, name), { force: true });
  return left.length;
}

/** The format of the small files in JSON, such as notes and records of processes. A file without the member `format` has this one. */
const JSON_FORMAT = 1;

/** A newer version of Fleet wrote the file. */
export class NewerFile extends StartupError {}

/** undefined if the file does not exist. Throws {@link NewerFile}, and an Error if it is not JSON. */
export function readJson<T>(path: string): T | undefined {
  try {
    return requireFormat(JSON.parse(readFileSync(path, "utf8")) as T, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** The content of a small file in JSON. Throws {@link NewerFile}. */
export function requireFormat<T>(content: T, path: string): T {
  const { format } = (content ?? {}) as { readonly format?: unknown };
  if (typeof format !== "number" || format <= JSON_FORMAT) return content;
  throw new NewerFile("a newer version of Fleet wrote a file", {
    exitCode: ERROR_TABLE.UNSUPPORTED_VERSION.exit,
    details: { code: "UNSUPPORTED_VERSION", path, format, supported: JSON_FORMAT },
    hint: "use the version of Fleet that wrote it, or a newer one; the file is unchanged",
  });
}

function written(path: string, content: string | Uint8Array, mode = OWNER_ONLY): string {
  // Threads of one process have one process id. A name that exists is never written to: it may be the file of another writer.
  const own = `${path}.${process.pid}.${randomBytes(4).toString("hex")}`;
  const file = openSync(own, "wx", mode);
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

/**
 * A folder above that answers so is older than this process: it may not open or change the folder, or the file system keeps the names of folders without a
 * sync.
 */
const IS_OLDER: ReadonlySet<string | undefined> = new Set(["EACCES", "EPERM", "EROFS", "EINVAL", "ENOTSUP"]);

/** Syncs the folders above a folder, so that a power cut does not take it away. */
export function syncFoldersAbove(path: string): void {
  const folder = resolve(path);
  for (let above = dirname(folder), below = folder; above !== below; below = above, above = dirname(above)) {
    try {
      syncFolder(above);
    } catch (error) {
      if (IS_OLDER.has((error as NodeJS.ErrnoException).code)) return;
      throw error;
    }
  }
}

/** Syncs a folder and those above it, so that a power cut takes away neither its new names nor itself. */
export function syncFolders(path: string): void {
  syncFolder(path);
  syncFoldersAbove(path);
}
