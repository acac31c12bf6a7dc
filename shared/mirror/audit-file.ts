/**
 * The audit trail of a task as JSON Lines: one canonical entry in each line, as it was hashed. Entries are only appended. A kill in the middle of an
 * append leaves a torn last line, which the next append replaces. A file whose end is no entry of this trail belongs to another store, or to a later
 * state than a restored backup has; it is set aside under another name and never overwritten.
 */
import { createReadStream, ftruncateSync, readSync, renameSync } from "node:fs";
import { createInterface } from "node:readline";
import { entryHash } from "../integrity/chain.ts";
import type { MirrorSeal } from "./encryption/mirror-seal.ts";
import type { MirroredTask } from "./place.ts";
import { AUDIT_FILE } from "./place.ts";
import { changeFile, writeAt } from "./private-file.ts";

/** Longer than most entries; the end is read again from further back until it has a whole line. */
const TAIL_BYTES = 1_024;
const NEWLINE = 0x0a;

export interface TrailEnd {
  /** The last whole line; null: there is none. */
  readonly entry: string | null;
  /** The seq of that entry; 0: there is none. null: the line is no entry. */
  readonly seq: number | null;
  /** The number of bytes up to its end. */
  readonly bytes: number;
  readonly size: number;
}

/** The form of the lines of a trail. */
export interface TrailLines {
  encode(entry: string): string;
  /** null: it is no line of this trail. */
  decode(line: string): string | null;
}

export const PLAIN_LINES: TrailLines = { encode: (entry) => entry, decode: (line) => line };

/** Each line is sealed on its own, because trails are only appended to. The chain of the entries shows their order. */
export function sealedLines(seal: MirrorSeal, place: MirroredTask, last?: LastLines): TrailLines {
  return {
    encode: (entry) => {
      const line = seal.seal(Buffer.from(entry), place, AUDIT_FILE).toString("base64");
      last?.set(place, { line, entry });
      return line;
    },
    decode: (line) =>
      last?.entryIn(place, line) ??
      seal.open(Buffer.from(line, "base64"), place, AUDIT_FILE)?.toString("utf8") ??
      null,
  };
}

interface LastLine {
  readonly line: string;
  readonly entry: string;
}

/** About 2 KB each. */
const LAST_LINES_MAX = 2_000;

/** The newest line that was sealed for each trail. The next append reads it as the end of the trail, and need not open it if it is the same. */
export class LastLines {
  readonly #lines = new Map<string, LastLine>();

  set(place: MirroredTask, line: LastLine): void {
    const trail = trailOf(place);
    if (this.#lines.size >= LAST_LINES_MAX && !this.#lines.has(trail)) this.#lines.clear();
    this.#lines.set(trail, line);
  }

  /** null: it is another line, or not known. */
  entryIn(place: MirroredTask, line: string): string | null {
    const known = this.#lines.get(trailOf(place));
    return known?.line === line ? known.entry : null;
  }
}

/** Tenants and tasks are tokens, which have no slash. */
const trailOf = ({ tenant, task }: MirroredTask): string => `${tenant}/${task}`;

/** Creates the file if there is none. Throws UnsafePlace. */
export function endOfTrail(path: string, lines: TrailLines): TrailEnd {
  return changeFile(path, (file, size) => {
    for (let length = TAIL_BYTES; ; length *= 8) {
      const tail = Buffer.alloc(Math.min(size, length));
      const start = size - tail.length;
      readSync(file, tail, 0, tail.length, start);
      const end = tail.lastIndexOf(NEWLINE);
      const before = end <= 0 ? -1 : tail.lastIndexOf(NEWLINE, end - 1);
      if (before < 0 && start > 0) continue;
      if (end < 0) return { entry: null, seq: 0, bytes: 0, size };
      const line = tail.toString("utf8", before + 1, end);
      const entry = lines.decode(line);
      return {
        entry: entry ?? line,
        seq: entry === null ? null : seqIn(entry),
        bytes: start + end + 1,
        size,
      };
    }
  });
}

/** `end` is the state that the entries follow. Throws if the file has another size since. */
export function appendTrail(
  path: string,
  { bytes, size }: TrailEnd,
  entries: readonly string[],
  lines: TrailLines,
): void {
  if (entries.length === 0) return;
  changeFile(path, (file, sizeNow) => {
    if (sizeNow !== size) throw new Error("another process wrote to the audit trail in the mirror");
    if (bytes !== size) ftruncateSync(file, bytes);
    writeAt(file, Buffer.from(`${entries.map((entry) => lines.encode(entry)).join("\n")}\n`), bytes);
  });
}

/** The end of the new file in its place. */
export function setTrailAside(path: string, { entry }: TrailEnd, lines: TrailLines): TrailEnd {
  renameSync(path, trailAside(path, entryHash(entry ?? "")));
  return endOfTrail(path, lines);
}

/** The name of a trail that was set aside. */
export const TRAIL_ASIDE = /^audit\.([0-9a-f]{16})\.jsonl(?:\.enc)?$/;

/** The place of a trail that was set aside; `hash`: of its last entry. */
export function trailAside(path: string, hash: string): string {
  return path.replace(/jsonl(?=(?:\.enc)?$)/, `${hash.slice(0, 16)}.jsonl`);
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
export async function* readTrail(path: string, trail: TrailLines): AsyncGenerator<string> {
  const input = createReadStream(path, { encoding: "utf8" });
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  try {
    for await (const line of lines) {
      const entry = trail.decode(line);
      if (entry === null || seqIn(entry) === null) return;
      yield entry;
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  } finally {
    lines.close();
    input.destroy();
  }
}
