#!/usr/bin/env node
// Installs the parts that a fresh clone lacks: the npm dependencies with the pinned Node, and a nats-server.
//
// It runs before start, demo, test, bench and check, with Node 20 or newer and nothing installed. If nothing is
// missing it prints nothing and takes a few dozen milliseconds, because the slow part is loaded only when it is needed.
// It writes only to the project folder (npm also to its own cache). Exit codes: 69, a part could not be installed; 73, the
// project folder cannot be written.

import { findNatsServer } from "./nats-binary.mjs";
import { packagesReady } from "./packages.mjs";
import { root } from "./root.mjs";

if (!packagesReady(root) || "problem" in findNatsServer({ root })) {
  const { installMissing } = await import("./installation.mjs");
  process.exitCode = await installMissing(root);
}
