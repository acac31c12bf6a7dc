// The files of a fleet, by the folder of its home that has them, and the spools of its agents.

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { FOLDER, type Values } from "./sample.ts";

/**
 * Files that end while they are counted are left out. Those of `home` itself are the folder `.`. The folder of the spools is made with the first
 * command that waits for the bus, and has no files before.
 */
export function diskSizes(home: string): Values {
  const sizes: Record<string, { files: number; bytes: number }> = {
    [`${FOLDER}spool`]: { files: 0, bytes: 0 },
  };
  for (const entry of readdirSync(home, { withFileTypes: true })) {
    const folder = `${FOLDER}${entry.isDirectory() ? entry.name : "."}`;
    const own = filesBelow(join(home, entry.name));
    const { files, bytes } = sizes[folder] ?? { files: 0, bytes: 0 };
    sizes[folder] = { files: files + own.files, bytes: bytes + own.bytes };
  }
  return sizes;
}

/** Allocated bytes: a file of the store may have holes. */
function filesBelow(path: string): { files: number; bytes: number } {
  try {
    const found = statSync(path);
    if (!found.isDirectory()) return { files: 1, bytes: found.blocks * 512 };
    const parts = readdirSync(path).map((name) => filesBelow(join(path, name)));
    return {
      files: parts.reduce((sum, one) => sum + one.files, 0),
      bytes: parts.reduce((sum, one) => sum + one.bytes, 0),
    };
  } catch {
    return { files: 0, bytes: 0 };
  }
}
