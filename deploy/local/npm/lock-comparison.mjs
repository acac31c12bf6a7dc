// Compares npm's own record of the installed packages with package-lock.json.
//
// npm's exit code is not enough: npm 10 ends with 0 after a fault of its own (without a network, for example), and every npm
// ignores an optional package that it cannot fetch. The embedded store is such a package.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** The names of packages that are missing or differ from the lock file. Empty: the installation is right. */
export function packagesUnlikeLock(root) {
  const installed = read(join(root, "node_modules", ".package-lock.json")) ?? {};
  const locked = read(join(root, "package-lock.json")) ?? {};
  const named = new Set(
    Object.keys(locked[""]?.optionalDependencies ?? {}).map((name) => `node_modules/${name}`),
  );
  return Object.entries(locked)
    .filter(
      ([path, entry]) => isInstalled(path, entry) && !matches(root, path, entry, installed[path], named),
    )
    .map(([path]) => path.replace(/^.*node_modules\//, ""));
}

// The project itself and its workspaces are not installed.
const isInstalled = (path, { link }) => path.startsWith("node_modules/") && !link;

function matches(root, path, { version, integrity, ...entry }, found, named) {
  if (!found) return (entry.optional || entry.devOptional) && !named.has(path) && !isForThisPlatform(entry);
  return (
    found.version === version && found.integrity === integrity && existsSync(join(root, path, "package.json"))
  );
}

// Packages with a libc are left out: which of two is installed depends on npm's version.
const isForThisPlatform = ({ os, cpu, libc }) =>
  !libc && os?.includes(process.platform) === true && cpu?.includes(process.arch) === true;

function read(path) {
  try {
    return JSON.parse(readFileSync(path, "utf8")).packages;
  } catch {
    return undefined; // missing, or truncated by a full disk
  }
}
