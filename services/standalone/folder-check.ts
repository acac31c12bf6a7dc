/**
 * Checks that a folder can hold the fleet's data, before any of it is written: files and folders, hard links, locks, and memory maps of
 * the store. A file system without one of them (a read-only disk, a shared folder of a virtual machine, some network disks) would
 * fail later with an error of a library, or end the process in the middle of its code.
 */
import { spawnSync } from "node:child_process";
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statfsSync,
  writeSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { lockFolder } from "../../shared/runtime/process/folder-lock.ts";
import { programUrl } from "../../shared/runtime/process/installation.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";

const OTHER_FOLDER = "choose a folder on a local disk with FLEET_HOME (and FLEET_STORE, if it is set)";
const FULL = new Set(["ENOSPC", "EDQUOT"]);
/** ext2 to ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS, F2FS: the store is known to work on them. */
const USUAL_TYPES = new Set([0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0x2fc12fc1, 0xf2f52010]);
const PROBE = fileURLToPath(programUrl("./store-probe.ts", import.meta.url));
const PROBE_MS = 20_000;

/** Creates the folder if it is missing. Throws StartupError: 73 if it cannot hold a store, 69 if the disk is full. */
export function requireUsableFolder(path: string): string {
  const folder = resolve(path);
  const made = step(folder, "create", () => mkdirSync(folder, { recursive: true, mode: 0o700 }));
  const probe = step(folder, "write", () => mkdtempSync(join(folder, ".check-")));
  try {
    const file = join(probe, "file");
    step(folder, "write", () => writeDurably(file));
    step(folder, "hard links", () => linkSync(file, join(probe, "link")));
    step(folder, "locks", () => requireLock(probe));
    if (!isUsual(folder)) requireMaps(folder, probe);
    return folder;
  } catch (error) {
    if (made !== undefined) rmSync(made, { recursive: true, force: true });
    throw error;
  } finally {
    rmSync(probe, { recursive: true, force: true });
  }
}

function step<T>(folder: string, lacks: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw folderProblem(error, folder, lacks);
  }
}

/** Any error of the file system as a StartupError; any other error stays unchanged. */
function folderProblem(error: unknown, path: string, lacks: string): unknown {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  if (code !== undefined && FULL.has(code)) {
    return new StartupError("the disk is full", {
      exitCode: exitCodes.unavailable,
      details: { path, problem: code },
      hint: "free some space, or set FLEET_HOME to another folder",
      cause: error,
    });
  }
  const isAccess = lacks === "create" || lacks === "write";
  if (isAccess && syscall === undefined) return error;
  return new StartupError(
    isAccess
      ? "the folder for the fleet's data cannot be written"
      : "the file system of the fleet's data cannot hold a store",
    {
      exitCode: exitCodes.cannotCreate,
      details: {
        path,
        ...(isAccess ? { problem: accessProblem(path) ?? code } : { lacks, problem: code ?? message }),
      },
      hint: isAccess ? "check its owner, or choose another folder with FLEET_HOME" : OTHER_FOLDER,
      cause: error,
    },
  );
}

/** The code for the nearest existing folder: Node reports ENOENT for a new folder on a read-only disk. */
function accessProblem(path: string): string | undefined {
  let folder = path;
  while (!existsSync(folder) && dirname(folder) !== folder) folder = dirname(folder);
  try {
    accessSync(folder, constants.W_OK);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  }
}

function writeDurably(path: string): void {
  const file = openSync(path, "wx", 0o600);
  try {
    writeSync(file, "x");
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** A new folder that no other process knows: if it seems locked, the file system has no locks. */
function requireLock(folder: string): void {
  const lock = lockFolder(folder, { waitMs: 0 });
  if (lock === undefined) throw new Error("a new file is locked");
  lock.release();
}

function isUsual(folder: string): boolean {
  return USUAL_TYPES.has(statfsSync(folder).type);
}

/** In a process of its own, because the engine ends a process that cannot map a file. */
export function requireMaps(folder: string, probe: string, env: NodeJS.ProcessEnv = process.env): void {
  const { status, signal, stderr } = spawnSync(process.execPath, [PROBE, probe], {
    env,
    encoding: "utf8",
    timeout: PROBE_MS,
  });
  if (status === 0) return;
  const reason =
    signal ??
    stderr
      .trim()
      .split("\n")
      .findLast((line) => /error/i.test(line)) ??
    `exit ${status}`;
  throw folderProblem(new Error(reason), folder, "memory maps");
}
