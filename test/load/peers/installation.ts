// LangGraph's savers, installed in folders of their own: they are no dependencies of this project. An installation stays until its
// versions change.

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { npmEnvironment } from "../../harness/npm/environment.ts";
import { projectRoot } from "../../harness/project-root.ts";

export type SaverKind = "postgres" | "sqlite";

/** Not in package.json, because only the benchmark has a use for it. */
const SQLITE = { "@langchain/langgraph-checkpoint-sqlite": "1.0.4" } as const;
/** With the versions that this project is tested with. */
const SHARED = ["@langchain/core", "@langchain/langgraph-checkpoint"] as const;
/** The saver does not use the native part of its dependency; see `sqlite-database.ts`. */
const NPM_FLAGS = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"] as const;
const INSTALL_MS = 300_000;
export const saverPackage = (kind: SaverKind): string => `@langchain/langgraph-checkpoint-${kind}`;

/** The exact versions of one saver and of what it needs. */
export function saverPackages(kind: SaverKind): Readonly<Record<string, string>> {
  const manifest = readFileSync(join(projectRoot, "package.json"), "utf8");
  const { devDependencies } = JSON.parse(manifest) as { devDependencies: Record<string, string> };
  const versionOf = (name: string): string => {
    const version = devDependencies[name];
    if (version === undefined) throw new Error(`${name} is no longer in package.json; give its version here`);
    return version;
  };
  const pinned = (names: readonly string[]) =>
    Object.fromEntries(names.map((name) => [name, versionOf(name)]));
  if (kind === "postgres") return pinned([...SHARED, saverPackage(kind), "pg"]);
  return { ...pinned(SHARED), ...SQLITE };
}

/** The folder with the packages. Null, after one line with the reason: npm cannot install them here. */
export async function installedSaver(
  kind: SaverKind,
  log: (line: string) => void,
  install: (kind: SaverKind) => Promise<string> = installSaver,
): Promise<string | null> {
  try {
    return await install(kind);
  } catch (error) {
    const reason = (error as Error).message.trim().replace(/\s*\n\s*/g, "; ");
    log(`peers: ${saverPackage(kind)} is skipped, because it cannot be installed: ${reason}`);
    return null;
  }
}

/** Returns the folder with the packages. Throws with the output of npm. */
async function installSaver(kind: SaverKind): Promise<string> {
  const folder = join(projectRoot, ".fleet", "peers", kind);
  const dependencies = saverPackages(kind);
  const manifest = `${JSON.stringify({ private: true, dependencies }, null, 2)}\n`;
  const stamp = join(folder, "installed.json");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === manifest) return folder;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), manifest);
  const args = ["install", "--prefix", folder, ...NPM_FLAGS];
  await promisify(execFile)("npm", args, { cwd: folder, env: npmEnvironment(), timeout: INSTALL_MS });
  // At the end, so that an interrupted installation never looks complete.
  writeFileSync(stamp, manifest);
  return folder;
}
