/**
 * One server per folder. Two servers on one store destroy it, and nats-server does not check. So the fleet
 * that starts a server holds the lock of the folder, and notes the server's process beside it. A server whose
 * fleet was killed is an orphan that still has the store and the port: the next fleet stops it.
 */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { lockFolder, lockHolder } from "../../../shared/runtime/process/folder-lock.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { writeWhole } from "../../../shared/runtime/process/whole-file.ts";

interface ServerProcess {
  readonly pid: number;
  readonly mark: string | undefined;
}

const NOTE = "server.json";
const STOP_MS = 10_000;

export interface NatsLock {
  /** To be called as soon as the server runs; a server without a note must be stopped. */
  noteServer(pid: number): void;
  /** Further calls do nothing. */
  release(): void;
}

/** Throws StartupError when another fleet uses the folder. */
export async function lockNatsFolder(dir: string): Promise<NatsLock> {
  const lock = lockFolder(dir);
  if (lock === undefined) {
    throw new StartupError("another fleet uses this folder", {
      exitCode: exitCodes.unavailable,
      details: { dir, pid: lockHolder(dir) },
      hint: "stop that one, or set FLEET_HOME to another folder",
    });
  }
  const path = join(dir, NOTE);
  try {
    await stopOrphan(path);
  } catch (error) {
    lock.release();
    throw error;
  }
  let isHeld = true;
  return {
    noteServer(pid) {
      writeWhole(path, JSON.stringify({ pid, mark: processMark(pid) } satisfies ServerProcess));
    },
    release() {
      // The note of the next holder must stay.
      if (isHeld) rmSync(path, { force: true });
      isHeld = false;
      lock.release();
    },
  };
}

/** True if the folder has the note of a server that still runs. */
export function hasRunningServer(dir: string): boolean {
  const server = readServer(join(dir, NOTE));
  return server !== undefined && isRunning(server);
}

async function stopOrphan(path: string): Promise<void> {
  const server = readServer(path);
  if (server !== undefined && isRunning(server)) {
    process.kill(server.pid, "SIGTERM");
    const end = performance.now() + STOP_MS;
    while (isRunning(server)) {
      if (performance.now() > end) process.kill(server.pid, "SIGKILL");
      await sleep(20);
    }
  }
  rmSync(path, { force: true });
}

/** Undefined if there is no note, or none that can be read. */
function readServer(path: string): ServerProcess | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as ServerProcess;
  } catch {
    return undefined;
  }
}

/** Compares the mark: the process id may belong to another process by now. */
function isRunning({ pid, mark }: ServerProcess): boolean {
  return mark !== undefined && processMark(pid) === mark;
}
