// A project folder for the setup scripts: the scripts, a lock file, and programs that answer --version.

import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

export const local = fileURLToPath(new URL("../../../deploy/local/", import.meta.url));

/** A new empty folder that is removed after the test. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "fleet-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A folder with the setup scripts in their place and a lock file without packages. */
export function scratchProject(): string {
  const root = scratchFolder();
  cpSync(local, join(root, "deploy", "local"), { recursive: true });
  put(join(root, "package-lock.json"), '{"packages":{"":{}}}');
  return root;
}

export function put(path: string, text: string): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

/** An executable that prints a version and ends with the given exit code, by default 0. */
export function putProgram(path: string, prints: string, exitCode = 0): string {
  put(path, `#!/bin/sh\necho "${prints}"\nexit ${exitCode}\n`);
  chmodSync(path, 0o755);
  return path;
}
