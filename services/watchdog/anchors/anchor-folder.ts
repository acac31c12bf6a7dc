/**
 * A folder with one file of JSON lines for each tenant: one line for each anchored checkpoint. A file is only appended to, so its
 * file system may forbid all else (`chattr +a`). A process that dies in the middle leaves half a line; the next one ends that
 * line, which readers skip, and writes its own.
 */
import { constants } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import type { MadeAnchor } from "../../../shared/records/audit-log/anchor-records.ts";
import type { AnchoredCheckpoint, AnchorKeeper, WallClock } from "./anchor-target.ts";

/** Checkpoints that follow each other faster share a line. */
const EVERY_MS = 10_000;
const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;
/** Of a line; it has some hundred. */
const LINE_BYTES_MAX = 16_384;
/** A link to another file is refused: it could lead the line anywhere. */
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_RDONLY, O_RDWR } = constants;

export function anchorFolder(folder: string, now: WallClock): AnchorKeeper {
  return {
    target: "folder",
    everyMs: EVERY_MS,
    keep: (log) => append(folder, log, new Date(now()).toISOString()),
  };
}

async function append(
  folder: string,
  { tenant, size, checkpoint }: AnchoredCheckpoint,
  at: string,
): Promise<MadeAnchor> {
  await mkdir(folder, { recursive: true, mode: FOLDER_MODE });
  const path = join(folder, `${tenant}.jsonl`);
  const file = await open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, FILE_MODE);
  try {
    const end = await endOf(file);
    const last = end.line === null ? null : lineIn(end.line);
    // Written by an instance that died before it recorded the anchor.
    if (last?.checkpoint === checkpoint) {
      if (!end.isWhole) await file.write("\n");
      await synced(file, folder);
      return { at: last.at, checkpoint };
    }
    const text = `${end.isWhole ? "" : "\n"}${JSON.stringify({ at, size, checkpoint })}\n`;
    const { bytesWritten } = await file.write(text);
    if (bytesWritten !== Buffer.byteLength(text)) throw new Error("the line was not written whole");
    await synced(file, folder);
    return { at, checkpoint };
  } finally {
    await file.close();
  }
}

/** The file, and its name in a folder that a power cut may not forget. */
async function synced(file: FileHandle, folder: string): Promise<void> {
  await file.sync();
  const directory = await open(folder, O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

interface FileEnd {
  /** The last line, without its end. null: there is none. */
  readonly line: string | null;
  /** Whether that line has an end. */
  readonly isWhole: boolean;
}

async function endOf(file: FileHandle): Promise<FileEnd> {
  const { size } = await file.stat();
  if (size === 0) return { line: null, isWhole: true };
  const length = Math.min(size, LINE_BYTES_MAX);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length);
  const text = buffer.toString("utf8", 0, bytesRead);
  const isWhole = text.endsWith("\n");
  return { line: (isWhole ? text.slice(0, -1) : text).split("\n").at(-1) ?? null, isWhole };
}

function lineIn(line: string): { readonly at: string; readonly checkpoint: string } | null {
  try {
    const { at, checkpoint } = JSON.parse(line) as { readonly at?: unknown; readonly checkpoint?: unknown };
    if (Number.isNaN(Date.parse(String(at)))) return null;
    return typeof at === "string" && typeof checkpoint === "string" ? { at, checkpoint } : null;
  } catch {
    return null;
  }
}
