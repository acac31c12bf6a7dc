// The fleet under test: the process that `npm start` runs, with its default settings but free ports and a folder of its own. Its
// log goes to a file in that folder.

import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ending } from "../jobs.ts";

export interface Fleet {
  readonly busUrl: string;
  readonly pid: number;
  /** null: not known. */
  readonly natsServerPid: number | null;
  stop(): Promise<void>;
}

export interface FleetOptions {
  readonly home: string;
  /** null: the embedded one in `home`. */
  readonly storeUrl: string | null;
  /** Folder for CPU profiles of the process; null: none. */
  readonly profile: string | null;
}

export const projectRoot = fileURLToPath(new URL("../../..", import.meta.url));
export const storePath = (home: string): string => join(home, "store");

const SETTINGS_KEPT = new Set(["FLEET_NATS_SERVER", "FLEET_LOG_LEVEL"]);
const START_MS = 60_000;
const STOP_MS = 30_000;
const LOG_TAIL_CHARS = 2_000;

/** Throws, with the end of its log, when it does not come up. */
export async function startFleet({ home, storeUrl, profile }: FleetOptions): Promise<Fleet> {
  const addresses = join(home, "addresses.json");
  rmSync(addresses, { force: true }); // an earlier run's
  const log = join(home, "fleet.log");
  const output = openSync(log, "a");
  const flags = profile === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`];
  const child = spawn(process.execPath, [...flags, "services/standalone/main.ts"], {
    cwd: projectRoot,
    env: {
      ...foreign(),
      FLEET_HOME: home,
      FLEET_NATS_PORT: "-1",
      FLEET_OPS_PORT: "0",
      ...(storeUrl !== null && { FLEET_STORE: storeUrl }),
    },
    stdio: ["ignore", output, output],
    detached: true, // Ctrl-C reaches the benchmark, which stops the fleet after the agents
  });
  closeSync(output);
  const ended = ending(child);
  let isGone = false;
  void ended.then(() => {
    isGone = true;
  });
  const stop = async () => {
    if (isGone) return;
    child.kill("SIGTERM");
    const hard = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await ended;
    clearTimeout(hard);
  };
  const deadline = performance.now() + START_MS;
  while (!isGone && performance.now() < deadline) {
    const busUrl = readBusUrl(addresses);
    if (busUrl !== null) return { busUrl, pid: child.pid!, natsServerPid: natsServerPid(home), stop };
    await sleep(20);
  }
  const tail = readFileSync(log, "utf8").slice(-LOG_TAIL_CHARS);
  await stop();
  throw new Error(`the fleet did not start; its log ends with:\n${tail}`);
}

/** Without the caller's settings: one that names a store in use would fill it. */
function foreign(): NodeJS.ProcessEnv {
  const isTaken = (name: string) => !name.startsWith("FLEET_") || SETTINGS_KEPT.has(name);
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => isTaken(name)));
}

function readBusUrl(path: string): string | null {
  if (!existsSync(path)) return null;
  try {
    return (JSON.parse(readFileSync(path, "utf8")) as { busUrl: string }).busUrl;
  } catch {
    return null; // half written
  }
}

/** From the name of the file in which the server says where it listens. */
function natsServerPid(home: string): number | null {
  const folder = join(home, "nats", "ports");
  if (!existsSync(folder)) return null;
  const pids = readdirSync(folder).flatMap((name) => /_(\d+)\.ports$/.exec(name)?.[1] ?? []);
  return pids.length === 1 ? Number(pids[0]) : null;
}
