/**
 * Where a round lives: the folder that the faults may hurt (store, bus), and beside it what they must not (history, logs). On request
 * the first is a small file system of its own, which can be filled to the last byte.
 */
import { execFileSync } from "node:child_process";
import { closeSync, cpSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Zone {
  readonly root: string;
  /** Store and bus. */
  readonly data: string;
  readonly history: string;
  readonly logs: string;
  /** Takes all space that is left. Throws where the zone is on the machine's own disk. */
  fill(): void;
  free(): void;
  /** The folders stay, also what was on the small disk. */
  rescue(): void;
  /** Unmounts the small disk, with what is on it. */
  release(): void;
  remove(): void;
}

/** Small enough to be filled at once; large enough for the dead letters of a long round, which nobody sees to. */
const SMALL_DISK = "512m";
const BLOCKS = [1024 * 1024, 4096, 1];

/** Why no small disk can be made here, in one line; undefined when it can. */
export function missingSmallDisk(): string | undefined {
  const folder = mkdtempSync(join(tmpdir(), "fleet-mount-"));
  try {
    mount(folder);
    execFileSync("umount", [folder], { stdio: "ignore" });
    return undefined;
  } catch {
    return "a small file system cannot be mounted here (it needs root on Linux)";
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function mount(folder: string): void {
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${SMALL_DISK}`, "tmpfs", folder], { stdio: "ignore" });
}

export function openZone(o: { readonly smallDisk: boolean }): Zone {
  const root = mkdtempSync(join(tmpdir(), "fleet-faults-"));
  const [data, history, logs] = ["data", "history", "logs"].map((name) => {
    mkdirSync(join(root, name));
    return join(root, name);
  }) as [string, string, string];
  const ballast = join(data, "ballast");
  let isMounted = false;
  if (o.smallDisk) {
    mount(data);
    isMounted = true;
  }
  const release = (): void => {
    if (!isMounted) return;
    execFileSync("umount", ["--lazy", data], { stdio: "ignore" });
    isMounted = false;
  };
  return {
    root,
    data,
    history,
    logs,
    fill() {
      if (!isMounted) throw new Error("the machine's own disk is never filled");
      const fd = openSync(ballast, "w");
      for (const size of BLOCKS) {
        const block = Buffer.alloc(size);
        try {
          while (writeSync(fd, block) === size);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
        }
      }
      closeSync(fd);
    },
    free: () => rmSync(ballast, { force: true }),
    release,
    rescue() {
      if (!isMounted) return;
      const kept = join(root, "rescued");
      cpSync(data, kept, { recursive: true });
      release();
    },
    remove() {
      release();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
