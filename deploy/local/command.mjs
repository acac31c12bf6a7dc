// Runs the command line program: in a checkout from its source, in an installed package from the compiled code.
//
// It uses this process if its Node is new enough, because a second process would double the start time. Otherwise, in a checkout, it
// starts the pinned Node, and passes streams, signals and the exit code through.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { enableCompileCache } from "./compile-cache.mjs";
import { isPackage, root } from "./root.mjs";
import { OLDEST_NODE, OLDEST_NODE_COMPILED, versionAtLeast } from "./versions.mjs";

const compiled = isPackage(root);
const cli = compiled
  ? join(root, "dist", "services", "cli", "main.js")
  : join(root, "services", "cli", "main.ts");
const oldest = compiled ? OLDEST_NODE_COMPILED : OLDEST_NODE;
const pinned = join(root, "node_modules", ".bin", "node");

export async function runCommand() {
  if (!compiled && !existsSync(join(root, "node_modules"))) {
    fail(`run \`npm start\` in ${root} first: it installs the dependencies`);
  } else if (versionAtLeast(process.versions.node, oldest)) {
    process.argv[1] = cli;
    enableCompileCache();
    await import(pathToFileURL(cli).href);
  } else if (compiled) {
    fail(`Node ${oldest} or newer is needed, this is ${process.versions.node}; see https://nodejs.org`);
  } else if (existsSync(pinned)) {
    enableCompileCache();
    await runWith(pinned);
  } else {
    fail(
      `Node ${oldest} or newer is needed, this is ${process.versions.node}; \`npm start\` in ${root} installs one`,
    );
  }
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
