// Fingerprints of files. A read never follows a path out of the workspace and never waits for a device.

import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { lstat, open, realpath } from "node:fs/promises";
import { dirname, isAbsolute, join, normalize, sep } from "node:path";
import { LIMITS } from "../../protocol/limits.ts";

export type Fingerprint =
  | { readonly kind: "file"; readonly sha256: string; readonly mtime: string }
  /** Too large, not a plain file, or not readable. */
  | { readonly kind: "unread"; readonly mtime?: string }
  | { readonly kind: "missing" }
  | { readonly kind: "outside" };

/** Reads files one after the other, within the limit of bytes that are hashed for one workspace. */
export class Fingerprints {
  readonly #root: string;
  #bytesLeft = LIMITS.workspace_hashed_bytes_max;

  private constructor(root: string) {
    this.#root = root;
  }

  static async of(root: string): Promise<Fingerprints> {
    return new Fingerprints(await realpath(root));
  }

  /** `path`: relative to the workspace. It may be from a checkpoint, and so any text. */
  async read(path: string): Promise<Fingerprint> {
    if (!isInside(path)) return { kind: "outside" };
    const whole = join(this.#root, path);
    try {
      const folder = await realpath(dirname(whole));
      if (folder !== this.#root && !folder.startsWith(this.#root + sep)) return { kind: "outside" };
      const { mtimeMs, size, isPlain } = await examine(whole);
      const mtime = new Date(mtimeMs).toISOString();
      if (!isPlain || size > LIMITS.workspace_file_bytes_max || size > this.#bytesLeft) {
        return { kind: "unread", mtime };
      }
      this.#bytesLeft -= size;
      return { kind: "file", sha256: await hashOf(whole), mtime };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      return code === "ENOENT" || code === "ENOTDIR" ? { kind: "missing" } : { kind: "unread" };
    }
  }
}

export function isInside(path: string): boolean {
  const plain = normalize(path);
  return !isAbsolute(plain) && plain !== ".." && !plain.startsWith(`..${sep}`) && !path.includes("\0");
}

export const isShort = (path: string): boolean =>
  Buffer.byteLength(JSON.stringify(path)) <= LIMITS.workspace_path_bytes_max;

async function examine(path: string): Promise<{ mtimeMs: number; size: number; isPlain: boolean }> {
  const found = await lstat(path);
  return { mtimeMs: found.mtimeMs, size: found.size, isPlain: found.isFile() };
}

/** Does not follow a link, nor wait for a pipe, that has replaced the file since it was examined. */
async function hashOf(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const hash = createHash("sha256");
    const end = LIMITS.workspace_file_bytes_max - 1;
    for await (const chunk of file.createReadStream({ end, autoClose: false })) hash.update(chunk);
    return hash.digest("hex");
  } finally {
    await file.close();
  }
}
