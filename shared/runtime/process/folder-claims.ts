/**
 * The claims of processes on a folder: empty files whose names say which process holds the folder. They lock it where Node has no
 * SQLite (before 22.13), and let such a process and a newer one exclude each other.
 *
 * A process adds its claim first and reads the others afterwards, so of two at least one sees the other. The claim with the smaller
 * id waits for the other to withdraw. A claim of a process that has ended counts for nothing. Unlike a lock of the kernel, claims do
 * not hold between containers, because a process id means nothing in another one.
 */
import { createHash, randomUUID } from "node:crypto";
import { closeSync, openSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { processMark } from "./process-identity.ts";

export type Sharing = "exclusive" | "shared";

export interface ClaimOptions {
  readonly sharing: Sharing;
  /** Blocks this thread for so many milliseconds at most while another claim is in the way. */
  readonly waitMs: number;
  /** True where a lock of the kernel already decides between the threads of this process. */
  readonly ignoreOwn?: boolean;
}

export interface FolderClaim {
  /** Further calls do nothing. */
  release(): void;
}

interface Claim {
  readonly name: string;
  readonly sharing: Sharing;
  readonly pid: number;
  readonly mark: string;
  readonly id: string;
}

const NAME = /^lock\.claim\.(exclusive|shared)\.(\d+)\.([0-9a-f]{16})\.([0-9a-f-]{36})$/;
const PAUSE_MS = { least: 2, spread: 8 };

/** Undefined while another process has claimed the folder. Throws when the folder is missing or cannot be written. */
export function claimFolder(folder: string, options: ClaimOptions): FolderClaim | undefined {
  const { sharing, waitMs, ignoreOwn = false } = options;
  const id = randomUUID();
  const path = join(folder, `lock.claim.${sharing}.${process.pid}.${markOf(process.pid)}.${id}`);
  const end = performance.now() + waitMs;
  const release = () => rmSync(path, { force: true });
  for (;;) {
    closeSync(openSync(path, "w", 0o600));
    const rivals = () => conflicting(folder, { id, sharing, ignoreOwn });
    let others = rivals();
    // The others withdraw, because this claim has the smallest id, or they hold the folder.
    while (others.length > 0 && others.every((other) => other.id > id) && performance.now() < end) {
      pause();
      others = rivals();
    }
    if (others.length === 0) return { release };
    release();
    if (performance.now() >= end) return undefined;
    pause();
  }
}

function conflicting(
  folder: string,
  own: { readonly id: string; readonly sharing: Sharing; readonly ignoreOwn: boolean },
): Claim[] {
  return claimsIn(folder).filter((claim) => {
    if (claim.id === own.id || (own.ignoreOwn && claim.pid === process.pid)) return false;
    if (markOf(claim.pid) === claim.mark) return claim.sharing === "exclusive" || own.sharing === "exclusive";
    // Its name is unique, so no other process's claim can be removed by mistake.
    rmSync(join(folder, claim.name), { force: true });
    return false;
  });
}

function claimsIn(folder: string): Claim[] {
  return readdirSync(folder).flatMap((name) => {
    const [, sharing, pid, mark, id] = NAME.exec(name) ?? [];
    if (sharing === undefined) return [];
    return [{ name, sharing: sharing as Sharing, pid: Number(pid), mark: mark!, id: id! }];
  });
}

/** Short and without characters that a file name cannot have. */
function markOf(pid: number): string {
  return createHash("sha256")
    .update(processMark(pid) ?? "")
    .digest("hex")
    .slice(0, 16);
}

/** Of random length, so that two processes do not repeat their attempts in step. */
function pause(): void {
  Atomics.wait(
    new Int32Array(new SharedArrayBuffer(4)),
    0,
    0,
    PAUSE_MS.least + Math.random() * PAUSE_MS.spread,
  );
}
