/** Small disks that a test fills to the last byte. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, type TestContext } from "vitest";

const MIB = 1024 * 1024;

/** A file system of its own. Skips the test where none can be mounted. */
export function smallDisk(sizeMib: number, { skip }: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), "fleet-disk-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${sizeMib}m`, "tmpfs", path], { stdio: "ignore" });
  } catch {
    rmSync(path, { recursive: true });
    skip("a small file system cannot be mounted here");
  }
  onTestFinished(() => {
    execFileSync("umount", ["-l", path]);
    rmSync(path, { recursive: true, force: true });
  });
  return path;
}

/** Fills the disk until so much is free. */
export function fill(disk: string, leftMib: number): void {
  for (let part = 0; ; part += 1) {
    const { bavail, bsize } = statfsSync(disk);
    const bytes = bavail * bsize - leftMib * MIB;
    if (bytes <= 0) return;
    mkdirSync(join(disk, "ballast"), { recursive: true });
    try {
      writeFileSync(join(disk, "ballast", `${leftMib}-${part}`), Buffer.alloc(Math.min(bytes, 32 * MIB)));
    } catch (error) {
      expect(error).toMatchObject({ code: "ENOSPC" });
      return;
    }
  }
}

export const clear = (disk: string) => rmSync(join(disk, "ballast"), { recursive: true });
