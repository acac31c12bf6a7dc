// Finds the nats-server of this project, for the setup script, the services and the tests.
//
// Order: the path in FLEET_NATS_SERVER; the project's own .fleet/bin/nats-server, for an installed package that of the user's
// cache; each nats-server on PATH.
// A path in FLEET_NATS_SERVER is used or refused, and never replaced by another server. On PATH an old server is
// skipped, because Debian 12 ships 2.9, which does not start with Fleet's configuration.
// Plain JavaScript with only node: modules, so that it runs before anything is installed.

import { spawnSync } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { isPackage } from "./root.mjs";
import { OLDEST_NATS, versionAtLeast } from "./versions.mjs";

/**
 * The folder for what is installed beside the npm packages: `.fleet` in a checkout. For an installed package it is in the user's cache,
 * because npm deletes the folder of a package, and another user may own it.
 */
export const setupFolder = (root) => (isPackage(root) ? join(userCache(), "fleet") : join(root, ".fleet"));

function userCache() {
  const { XDG_CACHE_HOME: given = "" } = process.env;
  return isAbsolute(given) ? given : join(homedir(), ".cache");
}

/** The path of the server that the setup script, or the first fleet of an installed package, installs. */
export const ownNatsPath = (root) => join(setupFolder(root), "bin", "nats-server");

/**
 * Finds a nats-server that is new enough and runs on this machine.
 * @param {{ root: string, env?: Record<string, string | undefined> }} where the project's folder; the environment
 * @returns {{ path: string, version: string } | { problem: string }} problem: one line
 */
export function findNatsServer({ root, env = process.env }) {
  if (env.FLEET_NATS_SERVER) {
    const found = probe(resolve(env.FLEET_NATS_SERVER));
    return "path" in found ? found : { problem: `FLEET_NATS_SERVER: ${found.problem}` };
  }
  const onPath = (env.PATH ?? "").split(delimiter).filter(Boolean);
  const skipped = [];
  for (const path of [ownNatsPath(root), ...onPath.map((folder) => resolve(folder, "nats-server"))]) {
    if (!isExecutable(path)) continue;
    const found = probe(path);
    if ("path" in found) return found;
    skipped.push(found.problem);
  }
  return { problem: [`no nats-server ${OLDEST_NATS} or newer`, ...new Set(skipped)].join("; ") };
}

/** Runs a binary to check that it starts on this machine and is new enough. */
export function probe(path) {
  if (!isExecutable(path)) return { problem: `${path} is not an executable file` };
  const run = spawnSync(path, ["--version"], { encoding: "utf8", timeout: 10_000, env: {} });
  const version = /\bv(\d+\.\d+\.\d+\S*)/.exec(run.stdout ?? "")?.[1];
  if (run.status !== 0 || !version) {
    const reason = run.error?.message ?? (run.stderr.trim().split("\n")[0] || `exit ${run.status}`);
    return { problem: `${path} does not run on this machine (${reason})` };
  }
  if (!versionAtLeast(version, OLDEST_NATS))
    return { problem: `${path} is version ${version}, and ${OLDEST_NATS} is required` };
  return { path, version };
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
