/** Files of JSON lines beside the keys, to which processes append. A line is on disk when its call returns. */
import { closeSync, fsyncSync, ftruncateSync, mkdirSync, openSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { lockFolder } from "../../../runtime/process/folder-lock.ts";

const OWNER_ONLY = 0o600;
/** Of the register, and the same in every version. */
const LOCK_FOLDER = "grants-lock";
const LOCK_FOLDER_MODE = 0o700;
const LOCK_MS = 5_000;

export function appendLine(folder: string, file: string, line: object): void {
  const lockFolderPath = join(folder, LOCK_FOLDER);
  mkdirSync(lockFolderPath, { recursive: true, mode: LOCK_FOLDER_MODE });
  // Without it, one process could take the new line of another one for half a line.
  const lock = lockFolder(lockFolderPath, { waitMs: LOCK_MS });
  if (lock === undefined) throw new Error("another program is writing the register of credentials");
  try {
    append(join(folder, file), line);
  } finally {
    lock.release();
  }
}

function append(path: string, line: object): void {
  const text = linesText(path);
  const complete = Buffer.byteLength(text.slice(0, text.lastIndexOf("\n") + 1));
  const file = openSync(path, "a", OWNER_ONLY);
  try {
    // Removes half a line, which a killed process left.
    ftruncateSync(file, complete);
    writeSync(file, `${JSON.stringify(line)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/**
 * The parsed lines of a file. `onDamage` throws for a whole line that cannot be parsed; lines count from 1. Half of the last line is left out: a killed
 * process has written it, and it took no effect.
 */
export function parsedLines<T>(
  text: string,
  parse: (line: string) => T | undefined,
  onDamage: (line: number) => never,
): T[] {
  const lines = text.split("\n");
  return lines.flatMap((line, index) => {
    if (line === "") return [];
    const parsed = parse(line);
    if (parsed !== undefined) return [parsed];
    return index === lines.length - 1 ? [] : onDamage(index + 1);
  });
}

/** Empty if there is no file. */
export function linesText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}
