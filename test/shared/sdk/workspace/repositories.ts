// Real git repositories in temporary folders.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const AUTHOR = [
  "-c",
  "user.name=tester",
  "-c",
  "user.email=tester@example.com",
  "-c",
  "commit.gpgsign=false",
];

const folders: string[] = [];

export function emptyFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "fleet-workspace-")));
  folders.push(folder);
  return folder;
}

export function removeFolders(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

export function run(folder: string, ...args: string[]): string {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  const env = { ...Object.fromEntries(own), GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" };
  return execFileSync("git", [...AUTHOR, ...args], {
    cwd: folder,
    env,
    encoding: "utf8",
    stdio: "pipe",
  }).trim();
}

export function write(folder: string, path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

export function commit(folder: string, path: string, text: string): string {
  write(folder, path, text);
  run(folder, "add", "--all");
  run(folder, "commit", "--quiet", "--message", `Change ${path}`);
  return run(folder, "rev-parse", "HEAD");
}

/** A repository with one commit on the branch `main` and an origin. Another origin has other commits. */
export function newRepository(origin = "https://git.example.com/team/app.git"): string {
  const folder = emptyFolder();
  run(folder, "init", "--quiet", "--initial-branch", "main");
  if (origin !== "") run(folder, "remote", "add", "origin", origin);
  write(folder, "ORIGIN", origin);
  commit(folder, "src/a.ts", "export const a = 1;\n");
  return folder;
}

/** A hash over a folder: names, kinds, contents and times of change. */
export function hashOfFolder(folder: string): string {
  const hash = createHash("sha256");
  const add = (path: string): void => {
    const found = lstatSync(path);
    hash.update(`${path} ${found.mode} ${found.mtimeMs} ${found.isDirectory()}\n`);
    if (found.isDirectory()) for (const name of readdirSync(path).sort()) add(join(path, name));
    else if (found.isFile()) hash.update(readFileSync(path));
  };
  add(folder);
  return hash.digest("hex");
}
