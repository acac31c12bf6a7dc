/**
 * The folders of a round: the data of store and bus, which the faults may damage, and the history and logs, which they must not touch. On
 * request the data folder is a separate small file system, which can be filled completely.
 */
import { execFileSync } from "node:child_process";
import { closeSync, cpSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SigningKeyFile } from "../../../../shared/service-host/signing/signing-key-file.ts";

export interface RoundFolders {
  readonly root: string;
  /** The folder of the store and the bus. */
  readonly data: string;
  readonly history: string;
  readonly logs: string;
  /** The file of the key with which all services sign. */
  readonly signingKey: string;
  /** Fills the small disk. Throws when the data folder is on the machine's disk. */
  fill(): void;
  free(): void;
  /** Copies the content of the small disk, so that it survives `release`. */
  keep(): void;
  /** Unmounts the small disk and so deletes its content. */
  release(): void;
  remove(): void;
}

/** Small enough to be filled at once, and large enough for the dead letters of a long round. */
const SMALL_DISK = "512m";
const BLOCKS = [1024 * 1024, 4096, 1];

/** The reason why no small disk can be mounted here, in one line; undefined when it can. */
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

export function openRoundFolders(o: { readonly smallDisk: boolean }): RoundFolders {
  const root = mkdtempSync(join(tmpdir(), "fleet-faults-"));
  const [data, history, logs] = ["data", "history", "logs"].map((name) => {
    mkdirSync(join(root, name));
    return join(root, name);
  }) as [string, string, string];
  const key = new SigningKeyFile(join(root, "signing-key.pem"));
  key.create();
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
    signingKey: key.path,
    fill() {
      if (!isMounted) throw new Error("the machine's disk is never filled");
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
    keep() {
      if (!isMounted) return;
      const kept = join(root, "kept");
      cpSync(data, kept, { recursive: true });
      release();
    },
    remove() {
      release();
      rmSync(root, { recursive: true, force: true });
    },
  };
}
