// Files that a command writes.

import { rename, rm, writeFile } from "node:fs/promises";
import { UsageError } from "./usage.ts";

/** Writes a file that only its owner can read. It is replaced atomically: no reader sees half of it. Throws UsageError. */
export async function writePrivateFile(path: string, content: string | Uint8Array): Promise<void> {
  const draft = `${path}.${process.pid}.part`;
  try {
    await writeFile(draft, content, { mode: 0o600, flag: "wx" });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    const reason = (error as NodeJS.ErrnoException).code ?? String(error);
    throw new UsageError(
      `${path} cannot be written: ${reason}`,
      "Give the path of a file in a folder that you may write to.",
    );
  }
}
