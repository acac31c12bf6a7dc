/**
 * Encrypts streams that a server without encryption has written. The server does that in place when it starts, and a kill in the middle would
 * damage a block. So it works on a copy, which takes the place of the streams when all of it is encrypted and on disk. A kill at any time leaves
 * either the plain streams or the encrypted ones, and the next start continues from there.
 */
import {
  closeSync,
  cpSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
} from "node:fs";
import { basename, join, relative } from "node:path";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";
import { STREAM_FOLDER, streamFiles } from "./stream-folder.ts";

const COPY = `${STREAM_FOLDER}.encrypting`;
const FORMER = `${STREAM_FOLDER}.plain`;
const SUMMARY = "index.db";
const FREE_BYTES_MIN = 64 * 1024 * 1024;

/**
 * `dir` is the folder of the server, which does not run. `runServer` runs one on the streams of a folder until it has read all of them, and stops it.
 * Throws StartupError; the plain streams are then unchanged.
 */
export async function encryptStreams(
  dir: string,
  runServer: (folder: string) => Promise<void>,
): Promise<void> {
  const place = (name: string) => join(dir, name);
  const [streams, copy, former] = [place(STREAM_FOLDER), place(COPY), place(FORMER)];
  // A kill between the two renames.
  if (!existsSync(streams) && existsSync(former)) renameSync(existsSync(copy) ? copy : former, streams);
  rmSync(copy, { recursive: true, force: true });
  rmSync(former, { recursive: true, force: true });
  const { plain } = streamFiles(streams);
  if (plain.length === 0) return;
  requireRoom(streams);
  makeFolders(streams, copy);
  cpSync(streams, copy, { recursive: true, preserveTimestamps: true });
  // A server that was stopped in good order leaves a summary of each stream. With it the next one opens the stream without its blocks, which
  // then stay plain; without it the server reads all of them, and writes them again.
  for (const path of filesBelow(copy)) if (basename(path) === SUMMARY) rmSync(path);
  await runServer(copy);
  const left = streamFiles(copy).plain;
  if (left.length > 0) {
    rmSync(copy, { recursive: true });
    throw problem(
      "nats-server has left streams unencrypted",
      { dir, plain: left.length, first: relative(copy, left[0]!) },
      "see its output above: it names a stream that it cannot open. Restore the files of that stream from a backup, then start again",
    );
  }
  syncTree(copy);
  renameSync(streams, former);
  renameSync(copy, streams);
  syncPath(dir);
  rmSync(former, { recursive: true });
}

function requireRoom(folder: string): void {
  const bytes = filesBelow(folder).reduce((sum, path) => sum + statSync(path).size, 0);
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  if (free < bytes + FREE_BYTES_MIN)
    throw problem(
      "the disk has no room to encrypt the streams",
      { folder, bytes, free_bytes: free },
      "free space for a second copy of this folder, then start again",
    );
}

/** The empty folders of a copy. `cpSync` would open them to other users: it keeps the modes of files only. */
function makeFolders(from: string, to: string): void {
  for (const path of [from, ...foldersBelow(from)])
    mkdirSync(join(to, relative(from, path)), { mode: statSync(path).mode & 0o777 });
}

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Each folder before those in it. */
function foldersBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** After a power cut the copy must be whole, because the plain streams are removed. */
function syncTree(folder: string): void {
  for (const path of filesBelow(folder)) syncPath(path);
  for (const path of [...foldersBelow(folder), folder]) syncPath(path);
}

function syncPath(path: string): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

function problem(message: string, details: Readonly<Record<string, unknown>>, hint: string): StartupError {
  return new StartupError(message, { exitCode: ERROR_TABLE.UNAVAILABLE.exit, details, hint });
}
