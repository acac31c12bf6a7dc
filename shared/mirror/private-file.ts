/**
 * Files and folders that only their owner can read. Nothing follows a symbolic link: a link in the folder could lead a write out of it. Writes block
 * their thread, which has no other work: a file takes an eighth of the processor time of the same calls through the pool of threads, and waits for
 * no other work there.
 */
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { lstat, open } from "node:fs/promises";

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const NO_PLAIN_FILE = new Set(["ENOENT", "ELOOP", "ENOTDIR", "ENXIO"]);
const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = constants;

/** A link, a file or something else is where a folder or a file of the mirror belongs. */
export class UnsafePlace extends Error {
  readonly path: string;
  constructor(path: string) {
    super("the place in the mirror is not a plain file or folder");
    this.name = "UnsafePlace";
    this.path = path;
  }
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** Creates the folder if there is none; the one above it must exist. Throws UnsafePlace. */
export function makeFolder(path: string): void {
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) mkdirSync(path, { mode: FOLDER_MODE });
  else if (!stat.isDirectory()) throw new UnsafePlace(path);
}

/** False for a link to a folder too. */
export async function isFolder(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (codeOf(error) === "ENOENT") return false;
    throw error;
  }
}

/** Whether anything is there. */
export async function isPlace(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (NO_PLAIN_FILE.has(codeOf(error) ?? "")) return false;
    throw error;
  }
}

/**
 * After a kill the file has its old content or the new one. `own` is a path on the same disk that no other thread uses. The content is not synced: a
 * power cut may damage files that are newer than the last synced position.
 */
export function replaceFile(path: string, content: Uint8Array, own: string): void {
  replace(path, own, () =>
    withFile(own, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, (file) => writeAt(file, content, 0)),
  );
}

/** Puts what `make` creates at `own` into the place of `path`. A folder there stays. Throws UnsafePlace. */
export function replace(path: string, own: string, make: () => void): void {
  rmSync(own, { force: true });
  try {
    make();
    renameSync(own, path);
  } catch (error) {
    rmSync(own, { force: true });
    throw ["EISDIR", "ENOTDIR"].includes(codeOf(error) ?? "") ? new UnsafePlace(path) : error;
  }
}

/** Opens a file to read and change it. `work` gets its size. Throws UnsafePlace. */
export function changeFile<T>(path: string, work: (file: number, size: number) => T): T {
  try {
    // Without O_NONBLOCK, a pipe in the place of a file would stop the thread for good.
    return withFile(path, O_CREAT | O_RDWR | O_NOFOLLOW | O_NONBLOCK, (file) => {
      const stat = fstatSync(file);
      if (!stat.isFile()) throw new UnsafePlace(path);
      return work(file, stat.size);
    });
  } catch (error) {
    if (["ELOOP", "EISDIR", "ENXIO"].includes(codeOf(error) ?? "")) throw new UnsafePlace(path);
    throw error;
  }
}

/** A full disk may take a part of a write. */
export function writeAt(file: number, content: Uint8Array, position: number): void {
  for (let at = 0; at < content.length; )
    at += writeSync(file, content, at, content.length - at, position + at);
}

/** {@link readPlainFile} for a thread that may wait. */
export function readPlainFileNow(path: string, bytesMax: number): Buffer | null {
  try {
    return withFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, (file) => {
      const stat = fstatSync(file);
      return stat.isFile() && stat.size <= bytesMax ? readFileSync(file) : null;
    });
  } catch (error) {
    if (NO_PLAIN_FILE.has(codeOf(error) ?? "")) return null;
    throw error;
  }
}

/** null: there is no plain file of at most `bytesMax` bytes. */
export async function readPlainFile(path: string, bytesMax: number): Promise<Buffer | null> {
  try {
    const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const stat = await file.stat();
      return stat.isFile() && stat.size <= bytesMax ? await file.readFile() : null;
    } finally {
      await file.close();
    }
  } catch (error) {
    if (NO_PLAIN_FILE.has(codeOf(error) ?? "")) return null;
    throw error;
  }
}

function withFile<T>(path: string, flags: number, work: (file: number) => T): T {
  const file = openSync(path, flags, FILE_MODE);
  try {
    return work(file);
  } finally {
    closeSync(file);
  }
}
