#!/usr/bin/env node
// The `fleet` command: runs services/cli/main.ts under a Node that can.
//
// In this process when it is new enough, because a second start would double the time to the first letter; else in
// the pinned Node, with streams, signals and exit code passed through.

import { existsSync } from "node:fs";
import module from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { OLDEST_NODE, versionAtLeast } from "./versions.mjs";

// Node resolves symbolic links before it names a module, so a link on PATH leads here too.
const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const cli = join(root, "services", "cli", "main.ts");
// Compiled code is kept: it saves a third of the time a command takes to start. Where it cannot be, nothing is lost.
const cache = join(root, ".fleet", "compile-cache");
const pinned = join(root, "node_modules", ".bin", "node");

if (!existsSync(join(root, "node_modules"))) {
  fail(`run \`npm start\` in ${root} first: it installs what is missing`);
} else if (versionAtLeast(process.versions.node, OLDEST_NODE)) {
  process.argv[1] = cli;
  module.enableCompileCache(cache);
  await import(pathToFileURL(cli).href);
} else if (existsSync(pinned)) {
  await passOn(pinned);
} else {
  fail(
    `Node ${OLDEST_NODE} or newer is needed, this is ${process.versions.node}; \`npm start\` in ${root} brings one`,
  );
}

async function passOn(node) {
  const { spawn } = await import("node:child_process");
  const { constants } = await import("node:os");
  const child = spawn(node, [cli, ...process.argv.slice(2)], {
    stdio: "inherit",
    env: { NODE_COMPILE_CACHE: cache, ...process.env },
  });
  // Caught here, so that the child alone decides what a signal means and how the command ends.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("error", (error) => fail(`${node} does not start: ${error.message}`));
  child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

function fail(text) {
  process.stderr.write(`fleet: ${text}\n`);
  process.exitCode = 69;
}
