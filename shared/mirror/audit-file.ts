/**
 * The audit trail of a task as JSON Lines: one canonical entry in each line, as it was hashed. Entries are only appended. A kill in the middle of an
 * append leaves a torn last line, which the next append replaces. A file whose end is no entry of this trail belongs to another store, or to a later
 * state than a restored backup has; it is set aside under another name and never overwritten.
 */
import { createReadStream } from "node:fs";
import { type FileHandle, rename } from "node:fs/promises";
import { createInterface } from "node:readline";
import { entryHash } from "../integrity/chain.ts";
import { changeFile } from "./private-file.ts";

/** The entries from `seq` on, in order. */
export type TrailSource = (seq: number) => AsyncIterable<string>;

const TAIL_BYTES = 64 * 1_024;
const NEWLINE = 0x0a;

interface TrailEnd {
  /** The last whole line; null: there is none. */
  readonly entry: string | null;
  /** The number of bytes up to its end. */
  readonly bytes: number;
}

export async function appendTrail(path: string, entriesFrom: TrailSource): Promise<void> {
  const foreign = await changeFile(path, (file, size) => append(file, size, entriesFrom));
  if (foreign === null) return;
  await rename(path, path.replace(/jsonl$/, `${entryHash(foreign).slice(0, 16)}.jsonl`));
  await changeFile(path, (file, size) => append(file, size, entriesFrom));
}

/** Returns the last entry of the file if it is not one of this trail; then nothing was written. */
async function append(file: FileHandle, size: number, entriesFrom: TrailSource): Promise<string | null> {
  const end = await endOf(file, size);
  const last = end.entry === null ? 0 : seqIn(end.entry);
  if (last === null) return end.entry;
  let at = end.bytes;
  let isJoined = last === 0;
  for await (const entry of entriesFrom(Math.max(1, last))) {
    if (!isJoined && entry !== end.entry) return end.entry;
    if (!isJoined) {
      isJoined = true;
      continue;
    }
    const line = Buffer.from(`${entry}\n`);
    if (at === end.bytes && at !== size) await file.truncate(at);
    await file.write(line, 0, line.length, at);
    at += line.length;
  }
  if (!isJoined) return end.entry;
  if (at !== end.bytes) await file.datasync();
  return null;
}

async function endOf(file: FileHandle, size: number): Promise<TrailEnd> {
  const tail = Buffer.alloc(Math.min(size, TAIL_BYTES));
  const start = size - tail.length;
  await file.read(tail, 0, tail.length, start);
  const end = tail.lastIndexOf(NEWLINE);
  if (end < 0) return { entry: null, bytes: 0 };
  const begin = end === 0 ? 0 : tail.lastIndexOf(NEWLINE, end - 1) + 1;
  return { entry: tail.toString("utf8", begin, end), bytes: start + end + 1 };
}

function seqIn(line: string): number | null {
  try {
    const { seq } = JSON.parse(line) as { seq?: unknown };
    return Number.isSafeInteger(seq) ? (seq as number) : null;
  } catch {
    return null;
  }
}

/** Ends before the first line that is no entry. */
export async function* readTrail(path: string): AsyncGenerator<string> {
  const input = createReadStream(path, { encoding: "utf8" });
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  try {
    for await (const line of lines) {
      if (seqIn(line) === null) return;
      yield line;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  } finally {
    lines.close();
    input.destroy();
  }
}
