/**
 * Files and folders that only their owner can read, written completely or not at all. Nothing follows a symbolic link: a link in the folder could
 * lead a write out of it.
 */
import { constants, type FileHandle, lstat, mkdir, open, rename, rm } from "node:fs/promises";

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_WRONLY } = constants;

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

/** Throws UnsafePlace. */
export async function makeFolder(path: string): Promise<void> {
  await mkdir(path, { mode: FOLDER_MODE }).catch((error: unknown) => {
    if (codeOf(error) !== "EEXIST") throw error;
  });
  if (!(await isFolder(path))) throw new UnsafePlace(path);
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

/** One process writes at a time, so the next one replaces what a killed one left. The content is on disk when this resolves; its name is after {@link syncFolder}. */
export async function replaceFile(path: string, content: string): Promise<void> {
  const own = `${path}.part`;
  await rm(own, { force: true });
  try {
    await withFile(own, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, async (file) => {
      await file.writeFile(content);
      await file.datasync();
    });
    await rename(own, path);
  } catch (error) {
    await rm(own, { force: true }).catch(() => undefined);
    throw error;
  }
}

export async function syncFolder(path: string): Promise<void> {
  await withFile(path, O_RDONLY, (folder) => folder.sync());
}

/** null: there is no plain file of at most `bytesMax` bytes. */
export async function readPlainFile(path: string, bytesMax: number): Promise<Buffer | null> {
  try {
    return await withFile(path, O_RDONLY | O_NOFOLLOW, async (file) => {
      const { size } = await plainStat(file, path);
      return size > bytesMax ? null : await file.readFile();
    });
  } catch (error) {
    if (error instanceof UnsafePlace || ["ENOENT", "ELOOP", "ENOTDIR"].includes(codeOf(error) ?? ""))
      return null;
    throw error;
  }
}

/** Opens a file to read its end and to append. Throws UnsafePlace. */
export async function changeFile<T>(
  path: string,
  work: (file: FileHandle, size: number) => Promise<T>,
): Promise<T> {
  try {
    return await withFile(path, O_CREAT | O_RDWR | O_NOFOLLOW, async (file) =>
      work(file, (await plainStat(file, path)).size),
    );
  } catch (error) {
    if (codeOf(error) === "ELOOP") throw new UnsafePlace(path);
    throw error;
  }
}

async function plainStat(file: FileHandle, path: string): Promise<{ size: number }> {
  const stat = await file.stat();
  if (!stat.isFile()) throw new UnsafePlace(path);
  return stat;
}

async function withFile<T>(path: string, flags: number, work: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, flags, FILE_MODE);
  try {
    return await work(file);
  } finally {
    await file.close();
  }
}
