#!/usr/bin/env node
// Brings what a fresh clone lacks: the npm dependencies with the pinned Node, and a nats-server.
//
// It runs before start, demo, test, bench and check, under any Node from 20 on, with nothing installed. When all
// is there it says nothing and costs a few dozen milliseconds: the slow half is only loaded when it has work to do.
// It writes to this project's folder alone (npm also to its own cache). Exit code 69: something could not be had.

import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { findNatsServer } from "./nats-binary.mjs";
import { packagesReady } from "./packages.mjs";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

if (!packagesReady(root) || "problem" in findNatsServer({ root })) {
  const { installMissing } = await import("./installation.mjs");
  process.exitCode = await installMissing(root);
}
