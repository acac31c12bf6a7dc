// The fleet under test: the process that `npm start` runs, with its default settings except for free ports and its own folder. Its
// log is a file in that folder.

import { spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { projectRoot } from "../../harness/project-root.ts";
import { profileFlags } from "../account/profile.ts";
import { exitOf } from "../jobs.ts";

export interface MeasuredFleet {
  readonly busUrl: string;
  readonly pid: number;
  /** Null: unknown. */
  readonly natsServerPid: number | null;
  /** From the start of its process until clients can connect. */
  readonly startMs: number;
  stop(): Promise<void>;
}

interface FleetOptions {
  readonly home: string;
  /** Null: the embedded store in `home`. */
  readonly storeUrl: string | null;
  /** The folder for CPU profiles of the process; null: no profiles. */
  readonly profile: string | null;
  /** Further settings. */
  readonly settings?: Readonly<Record<string, string>>;
  /** The time for its start. */
  readonly startMs?: number;
}

export const storePath = (home: string): string => join(home, "store");

const INHERITED_SETTINGS = new Set(["FLEET_NATS_SERVER", "FLEET_LOG_LEVEL"]);
const START_MS = 60_000;
const STOP_MS = 30_000;
const LOG_TAIL_CHARS = 2_000;

/** Throws with the end of the log when the fleet does not start. */
export async function startMeasuredFleet({
  home,
  storeUrl,
  profile,
  settings = {},
  startMs = START_MS,
}: FleetOptions): Promise<MeasuredFleet> {
  const addresses = join(home, "addresses.json");
  rmSync(addresses, { force: true }); // of an earlier run
  const log = join(home, "fleet.log");
  const output = openSync(log, "a");
  const flags = profile === null ? [] : profileFlags(profile);
  const begun = performance.now();
  const child = spawn(process.execPath, [...flags, "services/standalone/main.ts"], {
    cwd: projectRoot,
    env: {
      ...inheritedEnvironment(),
      FLEET_HOME: home,
      FLEET_NATS_PORT: "-1",
      FLEET_OPS_PORT: "0",
      FLEET_GATEWAY_PORT: "off",
      // Its connections act for many agents each, which no credentials allow.
      FLEET_AUTH: "off",
      ...(storeUrl !== null && { FLEET_STORE: storeUrl }),
      ...settings,
    },
    stdio: ["ignore", output, output],
    detached: true, // Ctrl-C reaches the benchmark only, which stops the fleet after the agents
  });
  closeSync(output);
  const ended = exitOf(child);
  let hasEnded = false;
  void ended.then(() => {
    hasEnded = true;
  });
  const stop = async () => {
    if (hasEnded) return;
    child.kill("SIGTERM");
    const killTimer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await ended;
    clearTimeout(killTimer);
  };
  const deadline = begun + startMs;
  while (!hasEnded && performance.now() < deadline) {
    const busUrl = readBusUrl(addresses);
    if (busUrl !== null) {
      const tookMs = performance.now() - begun;
      return { busUrl, pid: child.pid!, natsServerPid: natsServerPid(home), startMs: tookMs, stop };
    }
    await sleep(20);
  }
  const tail = readFileSync(log, "utf8").slice(-LOG_TAIL_CHARS);
  await stop();
  throw new Error(`the fleet did not start; its log ends with:\n${tail}`);
}

/** The environment without the caller's settings: a setting that names a store in use would fill that store. */
function inheritedEnvironment(): NodeJS.ProcessEnv {
  const isInherited = (name: string) => !name.startsWith("FLEET_") || INHERITED_SETTINGS.has(name);
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => isInherited(name)));
}

function readBusUrl(path: string): string | null {
  if (!existsSync(path)) return null;
  try {
    return (JSON.parse(readFileSync(path, "utf8")) as { busUrl: string }).busUrl;
  } catch {
    return null; // incompletely written
  }
}

/** The pid in the name of the file to which the server writes its ports. */
function natsServerPid(home: string): number | null {
  const folder = join(home, "nats", "ports");
  if (!existsSync(folder)) return null;
  const pids = readdirSync(folder).flatMap((name) => /_(\d+)\.ports$/.exec(name)?.[1] ?? []);
  return pids.length === 1 ? Number(pids[0]) : null;
}
