// A project folder as the set-up scripts see one: their own files, a lock file, and programs that answer --version.

import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

export const local = fileURLToPath(new URL("../../../deploy/local/", import.meta.url));

/** A new empty folder that goes away with the test. */
export function scratchFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "fleet-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A folder with the set-up scripts at their place and a lock file without packages. */
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

/** An executable that prints what a program prints about its version, and ends well unless told otherwise. */
export function putProgram(path: string, prints: string, exitCode = 0): string {
  put(path, `#!/bin/sh\necho "${prints}"\nexit ${exitCode}\n`);
  chmodSync(path, 0o755);
  return path;
}
