// The slow part of the setup: one process at a time installs the missing parts, and the others wait and check again.
//
// An incomplete part never counts as installed: everything is built under .fleet/setup and moved into place last. The next
// run removes the remains of an interrupted one, under the lock.

import { mkdirSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { takeLock } from "./lock.mjs";
import { findNatsServer, setupFolder } from "./nats-binary.mjs";
import { installNatsServer } from "./nats-download.mjs";
import { installPackages, packagesReady } from "./packages.mjs";
import { Problem, problemOf } from "./problem.mjs";
import { startProgress } from "./progress.mjs";
import { createSetupContext } from "./setup-context.mjs";

/** Installs the missing parts in the project folder `root`. Resolves to the exit code. */
export async function installMissing(root) {
  const progress = startProgress(process.stderr);
  try {
    return await install(root, progress);
  } catch (error) {
    // The folder of the setup cannot be made, so neither part was begun.
    return report([{ name: "set-up", error }], progress);
  } finally {
    progress.close();
  }
}

const install = (root, progress) =>
  withSetup(root, progress, async (setup) => {
    const failures = await installParts(root, setup, progress);
    if (setup.stoppedBy) return 128 + constants.signals[setup.stoppedBy];
    return report(failures, progress);
  });

/** Installs a nats-server for the first fleet of an installed package. Throws a Problem whose last line is the next step. */
export async function installMissingNats(root) {
  const progress = startProgress(process.stderr);
  try {
    await withSetup(root, progress, async (setup) => {
      // Another process may have installed it during the wait for the lock.
      const nats = findNatsServer({ root });
      if ("problem" in nats)
        await progress.job("nats-server", () => installNatsServer(root, setup, nats.problem));
    });
  } catch (error) {
    throw problemOf(error);
  } finally {
    progress.close();
  }
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"];

async function withSetup(root, progress, work) {
  const home = setupFolder(root);
  mkdirSync(home, { recursive: true });
  const lock = await takeLock(join(home, "setup.lock"), () =>
    progress.say("waiting for another setup to end"),
  );
  let setup;
  const stop = (signal) => setup.stop(signal);
  try {
    setup = createSetupContext(join(home, "setup"), lock);
    for (const signal of SIGNALS) process.on(signal, stop);
    return await work(setup);
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop);
    if (setup) rmSync(setup.folder, { recursive: true, force: true });
    lock.release();
  }
}

// Both parts are tried, so that one run shows the problems of both.
async function installParts(root, setup, progress) {
  const parts = [];
  if (!packagesReady(root)) parts.push(["npm dependencies", () => installPackages(root, setup)]);
  const nats = findNatsServer({ root });
  if ("problem" in nats) parts.push(["nats-server", () => natsFor(root, setup, nats.problem)]);
  const results = await Promise.allSettled(parts.map(([name, work]) => progress.job(name, work)));
  return results.flatMap(({ status, reason }, i) =>
    status === "rejected" ? [{ name: parts[i][0], error: reason }] : [],
  );
}

// A wrong path in FLEET_NATS_SERVER is for the user to correct; another server would hide the mistake.
async function natsFor(root, setup, problem) {
  if (process.env.FLEET_NATS_SERVER) throw new Problem(problem);
  await installNatsServer(root, setup, problem);
}

/** Prints every failure, and returns the exit code: that of the first. A defect is thrown after the others are printed. */
function report(failures, progress) {
  const problems = failures.map(({ name, error }) => ({ name, problem: problemOf(error) }));
  const known = problems.filter(({ problem }) => problem instanceof Problem);
  for (const { name, problem } of known) progress.say(`${name}: ${problem.message}`);
  const defect = problems.find(({ problem }) => !(problem instanceof Problem));
  if (defect) throw defect.problem;
  return known[0]?.problem.exitCode ?? 0;
}
