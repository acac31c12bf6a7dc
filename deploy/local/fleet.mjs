#!/usr/bin/env node
// The `fleet` command: runs services/cli/main.ts with a Node that supports TypeScript.
//
// It uses this process if its Node is new enough, because a second process would double the start time. Otherwise it starts the
// pinned Node, and passes streams, signals and the exit code through.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { enableCompileCache } from "./compile-cache.mjs";
import { OLDEST_NODE, versionAtLeast } from "./versions.mjs";

// Node resolves symbolic links in module URLs, so a link on PATH leads here too.
const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const cli = join(root, "services", "cli", "main.ts");
const pinned = join(root, "node_modules", ".bin", "node");

if (!existsSync(join(root, "node_modules"))) {
  fail(`run \`npm start\` in ${root} first: it installs the dependencies`);
} else if (versionAtLeast(process.versions.node, OLDEST_NODE)) {
  process.argv[1] = cli;
  enableCompileCache();
  await import(pathToFileURL(cli).href);
} else if (existsSync(pinned)) {
  enableCompileCache();
  await runWith(pinned);
} else {
  fail(
    `Node ${OLDEST_NODE} or newer is needed, this is ${process.versions.node}; \`npm start\` in ${root} installs one`,
  );
}

async function runWith(node) {
  const { spawn } = await import("node:child_process");
  const { constants } = await import("node:os");
  const child = spawn(node, [cli, ...process.argv.slice(2)], { stdio: "inherit" });
  // Caught here, so that the child alone handles signals and decides the exit code.
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
