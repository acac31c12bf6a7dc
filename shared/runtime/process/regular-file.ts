/** Files that another program may replace, such as those in the folder of an agent: a pipe, a link or an endless file there must not stop the reader. */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

/** Null: there is none. Throws an Error for what is no regular file or is larger than `bytesMax`, and the errors of the file system. */
export function readRegularFile(path: string, bytesMax: number): Buffer | null {
  const file = openedFile(path);
  if (file === null) return null;
  try {
    const stat = fstatSync(file);
    if (!stat.isFile()) throw new Error("it is no regular file");
    if (stat.size > bytesMax) throw new Error(`it has ${stat.size} bytes, and ${bytesMax} are read at most`);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}

function openedFile(path: string): number | null {
  try {
    // Without O_NONBLOCK the opening of a pipe would wait for its writer.
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}
