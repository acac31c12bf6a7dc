#!/usr/bin/env node
// Builds the package into dist, as npm's prepare script: before `npm pack`, and when the package is installed from git.
//
// npm also runs it after an install in a checkout. Without the compiler, as in a production install, there is nothing to do.

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { keepReachable } from "./declarations.mjs";

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const dist = join(root, "dist");
const compiler = join(root, "node_modules", "typescript", "bin", "tsc");

/** Files that the compiled code reads or imports, and that the compiler does not copy. */
const ASSETS = [
  ...names("deploy/local", ".mjs"),
  ...names("deploy/local/apt", ".mjs"),
  ...names("deploy/hook", ".mjs"),
  "deploy/nats/nats.conf",
  ...names("shared/protocol/schemas", ".json"),
  "shared/protocol/openapi.json",
  ...["verify.mjs", "verify.py"].map((name) => `shared/transfer/bundle/${name}`),
  ...names("services/cli/templates", ".txt"),
];

if (existsSync(compiler)) process.exitCode = build();
else process.stderr.write("fleet: the package is not built, because typescript is not installed\n");

function build() {
  rmSync(dist, { recursive: true, force: true });
  const run = spawnSync(
    process.execPath,
    [compiler, "-p", join(root, "deploy", "package", "tsconfig.json")],
    {
      stdio: "inherit",
    },
  );
  if (run.status !== 0) return run.status ?? 1;
  for (const path of ASSETS) {
    mkdirSync(dirname(join(dist, path)), { recursive: true });
    copy(join(root, path), join(dist, path));
  }
  keepReachable(dist, declarationEntries());
  return 0;
}

/** Programs read the JSON of the package, so it needs no layout. */
function copy(from, to) {
  if (from.endsWith(".json")) writeFileSync(to, JSON.stringify(JSON.parse(readFileSync(from, "utf8"))));
  else cpSync(from, to);
}

function declarationEntries() {
  const { exports } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return Object.values(exports).flatMap(({ types }) =>
    types === undefined ? [] : [types.replace("./dist/", "")],
  );
}

function names(folder, ending) {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(ending))
    .map((name) => `${folder}/${name}`);
}
