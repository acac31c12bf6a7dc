// An empty project with the packed package installed, as a user has it.

import { execFileSync, spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { npmEnvironment } from "../../harness/npm/environment.ts";
import { projectRoot } from "../../harness/project-root.ts";

export interface Installation {
  /** The user's project. */
  readonly folder: string;
  /** The size of the package's files, in bytes. */
  readonly unpackedBytes: number;
  /** The size of the files in node_modules, in bytes. 0 without an installation. */
  readonly installedBytes: number;
  /** The output of a failed `npm install`, if the registry cannot be reached. */
  readonly unreachable?: string;
}

/** Also a proxy whose certificate this npm does not trust. */
const UNREACHABLE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED|E50\d|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\w+)\b/;
const NPM_MS = 600_000;
/** Without a network npm would wait for minutes for each package. */
const FEW_ATTEMPTS = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--no-audit", "--no-fund"];
/** Not for a git URL: npm also ends a `git clone` after the time of a fetch, and a busy machine clones for longer than this. */
const QUICKLY = ["--fetch-timeout=20000", ...FEW_ATTEMPTS];

/** Packs the package, which builds it, and installs the tarball. Throws if npm fails for another reason than the network. */
export function installPackage(): Installation {
  const scratch = mkdtempSync(join(tmpdir(), "fleet-package-"));
  const pack = npm(["pack", "--json", "--pack-destination", scratch], checkoutIn(scratch));
  const [packed] = JSON.parse(pack.slice(pack.indexOf("["))) as { filename: string; unpackedSize: number }[];
  const folder = emptyProject(scratch);
  const unpackedBytes = packed!.unpackedSize;
  const tarball = join(scratch, packed!.filename);
  const unreachable = reaching(() => npm(["install", "--prefer-offline", ...QUICKLY, tarball], folder));
  if (unreachable !== undefined) return { folder, unpackedBytes, installedBytes: 0, unreachable };
  const installedBytes = bytesBelow(join(folder, "node_modules"));
  // The user's own development packages.
  mkdirSync(join(folder, "node_modules", "@types"), { recursive: true });
  symlinkSync(join(projectRoot, "node_modules/@types/node"), join(folder, "node_modules/@types/node"));
  return { folder, unpackedBytes, installedBytes };
}

/**
 * A copy of the files that git has or would add, which is what npm builds from a git URL. It has the packages of this checkout; its own
 * `dist` is built, so that other tests never see a half-built one.
 */
function checkoutIn(scratch: string): string {
  const folder = copyOfFiles(scratch);
  symlinkSync(join(projectRoot, "node_modules"), join(folder, "node_modules"));
  return folder;
}

function copyOfFiles(scratch: string): string {
  const folder = join(scratch, "checkout");
  const list = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: projectRoot,
    encoding: "utf8",
  });
  for (const path of list.split("\0").filter((one) => one !== "" && existsSync(join(projectRoot, one))))
    cpSync(join(projectRoot, path), join(folder, path));
  return folder;
}

function npm(args: readonly string[], cwd: string): string {
  return execFileSync("npm", args, {
    cwd,
    env: npmEnvironment(),
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    maxBuffer: 64 * 1024 * 1024,
    timeout: NPM_MS,
  });
}

/** Installs the package from the address of a git repository, which npm builds itself. Throws like {@link installPackage}. */
export function installFromGit(): { readonly folder: string; readonly unreachable?: string } {
  const scratch = mkdtempSync(join(tmpdir(), "fleet-git-"));
  const repository = copyOfFiles(scratch);
  const git = (...args: string[]) => execFileSync("git", args, { cwd: repository });
  git("init", "--quiet");
  git("add", "--all", "--force");
  git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--message", "package");
  const folder = emptyProject(scratch);
  const url = `git+${pathToFileURL(repository)}`;
  const unreachable = reaching(() => npm(["install", "--prefer-offline", ...FEW_ATTEMPTS, url], folder));
  return { folder, ...(unreachable !== undefined && { unreachable }) };
}

function emptyProject(scratch: string): string {
  const folder = join(scratch, "project");
  mkdirSync(folder);
  writeFileSync(join(folder, "package.json"), '{ "name": "project", "private": true, "type": "module" }\n');
  return folder;
}

/** The size of the packages that a service of a checkout needs, in bytes; undefined if the registry cannot be reached. */
export function productionBytes(): number | undefined {
  const scratch = mkdtempSync(join(tmpdir(), "fleet-production-"));
  try {
    const folder = copyOfFiles(scratch);
    const ended = reaching(() =>
      npm(["ci", "--omit=dev", "--prefer-offline", "--ignore-scripts", ...QUICKLY], folder),
    );
    return ended === undefined ? bytesBelow(join(folder, "node_modules")) : undefined;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The output of a command that cannot reach the registry; undefined for one that succeeds. Throws other failures. */
function reaching(command: () => unknown): string | undefined {
  try {
    command();
    return undefined;
  } catch (error) {
    const { code, stderr } = error as { code?: string; stderr?: string };
    const output = String(stderr);
    if (code !== "ETIMEDOUT" && !UNREACHABLE.test(output)) throw error;
    return output;
  }
}

/** The sum of the sizes of all files below a folder. */
function bytesBelow(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + lstatSync(join(entry.parentPath, entry.name)).size, 0);
}

/** The first Node of this major version on PATH. */
export function findNode(major: number): string | undefined {
  const places = (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, "node"));
  return [process.execPath, ...places].find(
    (path) =>
      existsSync(path) &&
      spawnSync(path, ["--version"], { encoding: "utf8" }).stdout?.startsWith(`v${major}.`),
  );
}
