// Files that a command writes.

import { rename, rm, writeFile } from "node:fs/promises";
import { UsageError } from "./usage.ts";

/** For its owner alone, and whole or not at all: a reader never sees half of it. Throws UsageError. */
export async function writeOwn(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}.part`;
  try {
    await writeFile(draft, text, { mode: 0o600, flag: "wx" });
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    const reason = (error as NodeJS.ErrnoException).code ?? String(error);
    throw new UsageError(
      `${path} cannot be written: ${reason}`,
      "Give the path of a file in a folder of yours.",
    );
  }
}
