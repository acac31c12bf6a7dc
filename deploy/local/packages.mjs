// The npm dependencies, and the pinned Node that comes with them.
//
// A stamp inside node_modules names its lock file and platform. npm deletes the folder before it installs, so an
// interrupted install leaves no stamp. No install script of a package is run: npm's rules for them depend on its
// version and on the user's settings. Only the package `node` needs one, which fetches the binary from the
// registry; this file does that instead, the same way everywhere.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join, sep } from "node:path";
import { adviceFor, adviceWithoutError } from "./npm/advice.mjs";
import { packagesUnlikeLock } from "./npm/lock-comparison.mjs";
import { Problem, reasonIn } from "./problem.mjs";
import { OLDEST_NODE, versionAtLeast } from "./versions.mjs";

const at = (root, ...parts) => join(root, "node_modules", ...parts);
const stampPath = (root) => at(root, ".fleet-setup");
export const pinnedNode = (root) => at(root, ".bin", "node");

/** True if node_modules matches package-lock.json. It starts no process, because it runs before every command. */
export function packagesReady(root) {
  const stamp = stampFor(root);
  return stamp !== undefined && readText(stampPath(root)) === stamp && existsSync(pinnedNode(root));
}

/** Installs the dependencies and the pinned Node, except those that are present and right. */
export async function installPackages(root, setup) {
  if (!stampFor(root)) throw new Problem("package-lock.json is missing; run: git checkout package-lock.json");
  if (packagesUnlikeLock(root).length > 0) {
    // Removed before npm starts, so that an interrupted install never looks finished.
    rmSync(stampPath(root), { force: true });
    rmSync(at(root, ".package-lock.json"), { force: true });
    const include = ["--include=dev", "--include=optional"];
    const flags = ["--ignore-scripts", ...include, "--no-audit", "--no-fund", "--loglevel=error"];
    const output = await npm(root, setup, "npm ci", ["ci", ...flags], root);
    requireLocked(root, output);
  }
  if (!nodeVersion(pinnedNode(root))) await installNode(root, setup);
  const fresh = join(setup.folder, "stamp");
  writeFileSync(fresh, stampFor(root));
  renameSync(fresh, stampPath(root));
}

function requireLocked(root, output) {
  const names = packagesUnlikeLock(root);
  if (names.length === 0) return;
  const some = `${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""}`;
  throw new Problem(
    `npm ci ended without an error, but ${names.length} of the packages in package-lock.json are missing or differ (${some}). ` +
      `Its output:${reasonIn(output.trim() || "(nothing)")}\n  ${adviceWithoutError(output)}`,
  );
}

const stampFor = (root) => {
  const lock = readText(join(root, "package-lock.json"));
  if (lock === undefined) return undefined;
  return `${createHash("sha256").update(lock).digest("hex")} ${process.platform}-${process.arch}\n`;
};

// The registry has the binary in one package per platform, which the install script of `node` uses as well.
async function installNode(root, setup) {
  const { version } = JSON.parse(readText(at(root, "node", "package.json")));
  const family = process.platform === "darwin" && process.arch === "arm64" ? "node-bin" : "node";
  const name = `${family}-${process.platform}-${process.arch}`;
  const folder = join(setup.folder, "node");
  mkdirSync(folder);
  writeFileSync(join(folder, "package.json"), "{}");
  const flags = [
    "--ignore-scripts",
    "--no-save",
    "--no-package-lock",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
  ];
  try {
    await npm(
      root,
      setup,
      "npm install",
      ["install", "--prefix", folder, ...flags, `${name}@${version}`],
      folder,
    );
    const binary = join(folder, "node_modules", name, "bin", "node");
    if (!nodeVersion(binary))
      throw new Problem(`the Node ${version} of the npm package ${name} does not run on this machine`);
    place(root, () => {
      mkdirSync(at(root, "node", "bin"), { recursive: true });
      renameSync(binary, at(root, "node", "bin", "node"));
      return join("..", "node", "bin", "node");
    });
  } catch (problem) {
    const outer = outerNode(root);
    if (setup.stoppedBy || !nodeVersion(outer)) throw withRemedy(problem);
    place(root, () => outer);
  }
}

function place(root, makeTarget) {
  const target = makeTarget();
  mkdirSync(at(root, ".bin"), { recursive: true });
  rmSync(pinnedNode(root), { force: true });
  symlinkSync(target, pinnedNode(root));
}

const withRemedy = (problem) =>
  problem instanceof Problem
    ? new Problem(
        `${problem.message}\n  Or install Node ${OLDEST_NODE} or newer (https://nodejs.org) and run this again.`,
      )
    : problem;

/** Resolves with npm's output. */
async function npm(root, setup, title, args, cwd) {
  const node = outerNode(root);
  const script = process.env.npm_execpath ?? "";
  const known = script.endsWith("npm-cli.js") && existsSync(script);
  const PATH = [...outerPath(root), dirname(node)].join(delimiter);
  const options = { cwd, env: { ...process.env, PATH } };
  const { ok, output } = known
    ? await setup.run(node, [script, ...args], options)
    : await setup.run("npm", args, options);
  if (ok) return output;
  const advice = adviceFor(output);
  throw new Problem(`${title} failed:${reasonIn(output)}${advice === undefined ? "" : `\n  ${advice}`}`);
}

// npm must not run with the Node inside node_modules, because it deletes that folder first.
function outerNode(root) {
  const candidates = [
    process.execPath,
    process.env.npm_node_execpath,
    ...outerPath(root).map((folder) => join(folder, "node")),
  ];
  return candidates.find((path) => path && !isInside(root, path) && existsSync(path)) ?? process.execPath;
}

const outerPath = (root) =>
  (process.env.PATH ?? "").split(delimiter).filter((folder) => folder && !isInside(root, folder));

const isInside = (root, path) => path.startsWith(at(root) + sep);

function nodeVersion(path) {
  const run = spawnSync(path, ["--version"], { encoding: "utf8", timeout: 10_000 });
  const version = (run.stdout ?? "").trim();
  return run.status === 0 && versionAtLeast(version, OLDEST_NODE) ? version : undefined;
}

function readText(path) {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (["ENOENT", "ENOTDIR", "EACCES"].includes(error.code)) return undefined;
    throw error;
  }
}
