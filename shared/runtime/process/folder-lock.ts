/**
 * One process at a time for a folder. The claim is a symbolic link whose target names its holder: made whole or not at all, and void
 * as soon as that process is gone. A machine with several process namespaces can have two holders: whatever a claim protects must
 * bear that.
 */
import { readlinkSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { processMark } from "./process-identity.ts";

/** Returns how to give it back; undefined while another holder lives. Throws where the folder cannot be written. */
export function claimFolder(folder: string, name: string): (() => void) | undefined {
  const path = join(folder, name);
  const own = `${process.pid}:${processMark(process.pid) ?? ""}`;
  for (let tries = 0; tries < 2; tries += 1) {
    try {
      symlinkSync(own, path);
      return () => rmSync(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    if (isHeld(path)) return undefined;
    rmSync(path, { force: true });
  }
  return undefined;
}

function isHeld(path: string): boolean {
  try {
    const [, pid = "", mark = ""] = /^(\d+):(.*)$/.exec(readlinkSync(path)) ?? [];
    return mark !== "" && processMark(Number(pid)) === mark;
  } catch {
    // Given back just now.
    return false;
  }
}
