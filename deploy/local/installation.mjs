// The slow part of the setup: one process at a time installs the missing parts, and the others wait and check again.
//
// An incomplete part never counts as installed: everything is built under .fleet/setup and moved into place last. The next
// run removes the remains of an interrupted one, under the lock.

import { mkdirSync, rmSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { takeLock } from "./lock.mjs";
import { findNatsServer } from "./nats-binary.mjs";
import { installNatsServer } from "./nats-download.mjs";
import { installPackages, packagesReady } from "./packages.mjs";
import { Problem } from "./problem.mjs";
import { startProgress } from "./progress.mjs";
import { createSetupContext } from "./setup-context.mjs";

const UNAVAILABLE = 69; // EX_UNAVAILABLE of sysexits.h

/** Installs the missing parts in the project folder `root`. Resolves to the exit code. */
export async function installMissing(root) {
  const home = join(root, ".fleet");
  const progress = startProgress(process.stderr);
  mkdirSync(home, { recursive: true });
  const lock = await takeLock(join(home, "setup.lock"), () =>
    progress.say("waiting for another setup to end"),
  );
  const setup = createSetupContext(join(home, "setup"), lock);
  const stop = (signal) => setup.stop(signal);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, stop);
  try {
    const jobs = [];
    if (!packagesReady(root)) jobs.push(progress.job("npm dependencies", () => installPackages(root, setup)));
    const nats = findNatsServer({ root });
    if ("problem" in nats) jobs.push(progress.job("nats-server", () => natsFor(root, setup, nats.problem)));
    const results = await Promise.allSettled(jobs);
    if (setup.stoppedBy) return 128 + constants.signals[setup.stoppedBy];
    return report(results, progress);
  } finally {
    progress.close();
    rmSync(setup.folder, { recursive: true, force: true });
    lock.release();
  }
}

// A wrong path in FLEET_NATS_SERVER is for the user to correct; another server would hide the mistake.
async function natsFor(root, setup, problem) {
  if (process.env.FLEET_NATS_SERVER) throw new Problem(problem);
  await installNatsServer(root, setup, problem);
}

function report(results, progress) {
  const failures = results.filter((result) => result.status === "rejected").map((result) => result.reason);
  for (const failure of failures) {
    if (!(failure instanceof Problem)) throw failure;
    progress.say(failure.message);
  }
  return failures.length > 0 ? UNAVAILABLE : 0;
}
