/** Files and folders that only their owner can read. Nothing follows a symbolic link: a link could lead a write out of the folder. */
import { constants, type FileHandle, lstat, mkdir, open } from "node:fs/promises";
import { FleetError } from "../protocol/errors.ts";

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;

export const errorCode = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** Throws INTERNAL if a link or a file is there. */
export async function ensureFolder(path: string): Promise<void> {
  await mkdir(path, { mode: FOLDER_MODE }).catch((error: unknown) => {
    if (errorCode(error) !== "EEXIST") throw error;
  });
  if (await isPlainFolder(path)) return;
  throw new FleetError("INTERNAL", "the place of artifacts is not a plain folder", { details: { path } });
}

/** False for a link to a folder too. */
export async function isPlainFolder(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isDirectory();
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
    throw error;
  }
}

/** Creates a file whose content is on disk when this resolves. */
export async function writeNewFile(path: string, content: Uint8Array): Promise<void> {
  await withHandle(path, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, async (file) => {
    await file.writeFile(content);
    await file.datasync();
  });
}

/** null: there is no plain file of at most `bytesMax` bytes. */
export async function readSmallFile(path: string, bytesMax: number): Promise<Buffer | null> {
  try {
    return await withHandle(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, async (file) => {
      const stat = await file.stat();
      return stat.isFile() && stat.size <= bytesMax ? await file.readFile() : null;
    });
  } catch (error) {
    if (["ENOENT", "ELOOP", "ENOTDIR"].includes(errorCode(error) ?? "")) return null;
    throw error;
  }
}

/** The first bytes of a plain file; none if there is no such file. */
export async function readHead(path: string, length: number): Promise<Uint8Array> {
  try {
    return await withHandle(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, async (file) => {
      const { buffer, bytesRead } = await file.read(new Uint8Array(length), 0, length, 0);
      return buffer.subarray(0, bytesRead);
    });
  } catch (error) {
    if (["ENOENT", "ELOOP", "ENOTDIR"].includes(errorCode(error) ?? "")) return new Uint8Array();
    throw error;
  }
}

/** Makes the names in a folder durable. */
export async function syncNames(path: string): Promise<void> {
  await withHandle(path, O_RDONLY, (folder) => folder.sync());
}

async function withHandle<T>(
  path: string,
  flags: number,
  work: (file: FileHandle) => Promise<T>,
): Promise<T> {
  const file = await open(path, flags, FILE_MODE);
  try {
    return await work(file);
  } finally {
    await file.close();
  }
}
