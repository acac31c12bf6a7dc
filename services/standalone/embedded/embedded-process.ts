/** The child process of an embedded fleet, as its parent sees it. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, mkdtempSync, openSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { programUrl } from "../../../shared/runtime/process/installation.ts";
import type { EmbeddedAddresses } from "./embedded-program.ts";
import { embeddedEnvironment } from "./embedded-settings.ts";

const PROGRAM = fileURLToPath(programUrl("./embedded-program.ts", import.meta.url));
/** Longer than the child's own limit of 25 s. */
const STOP_MS = 30_000;
const SHOWN_CHARS = 2_000;

export interface FleetProcess {
  readonly home: string;
  readonly addresses: EmbeddedAddresses;
  readonly log: () => string;
  /** Resolves when the process has ended and its folder is deleted. Throws UNAVAILABLE if it has ended with an error. */
  readonly end: () => Promise<void>;
}

interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Throws UNAVAILABLE if the fleet does not start; nothing is left then. */
export async function launchFleet(settings: Readonly<Record<string, string>>): Promise<FleetProcess> {
  const home = mkdtempSync(join(tmpdir(), "fleet-embedded-"));
  const logFile = join(home, "fleet.log");
  const log = () => readLog(logFile);
  try {
    const child = spawnProgram(home, logFile, settings);
    const exited = exitOf(child);
    const addresses = await Promise.race([addressesFrom(child), exited]);
    if (!("url" in addresses)) throw ended("the embedded fleet does not start", addresses, log());
    // A program that forgets to stop its fleet can end nevertheless; the fleet ends with it.
    child.unref();
    child.channel?.unref();
    return { home, addresses, log, end: () => end(child, exited, home, log) };
  } catch (error) {
    await deleteFolder(home);
    throw error;
  }
}

/** The log is a file: a pipe that a busy parent does not read would stop the fleet. */
function spawnProgram(
  home: string,
  logFile: string,
  settings: Readonly<Record<string, string>>,
): ChildProcess {
  const log = openSync(logFile, "a", 0o600);
  try {
    return spawn(process.execPath, [PROGRAM], {
      // A group of its own: Ctrl-C ends the tests, which stop the fleet after their own work.
      detached: true,
      env: embeddedEnvironment(home, settings),
      stdio: ["ignore", log, log, "ipc"],
    });
  } finally {
    closeSync(log);
  }
}

const addressesFrom = (child: ChildProcess): Promise<EmbeddedAddresses> =>
  new Promise((resolve) => child.once("message", (message) => resolve(message as EmbeddedAddresses)));

const exitOf = (child: ChildProcess): Promise<Exit> =>
  new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });

async function end(
  child: ChildProcess,
  exited: Promise<Exit>,
  home: string,
  log: () => string,
): Promise<void> {
  child.ref();
  if (child.connected) child.disconnect();
  const deadline = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
  const exit = await exited;
  clearTimeout(deadline);
  const output = log();
  await deleteFolder(home);
  if (exit.code !== 0) throw ended("the embedded fleet ended with an error", exit, output);
}

/** Repeated, because a nats-server that a killed fleet has left still writes for some milliseconds. */
const deleteFolder = (home: string): Promise<void> =>
  rm(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });

function readLog(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // deleted with the folder
  }
}

function ended(message: string, exit: Exit, output: string): FleetError {
  return new FleetError("UNAVAILABLE", message, {
    details: { ...exit, output: output.slice(-SHOWN_CHARS).trim() },
  });
}
