// Runs programs under `strace` and repeats what they did to the files of a folder on a recorded disk, step by step.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { text } from "node:stream/consumers";
import { callsOf, type SystemCall } from "./strace-log.ts";

/** Every call that changes files or brings them to the disk, and those that tell which descriptor leads to which file. */
const CALLS = [
  ...["openat", "openat2", "close", "dup", "dup3", "fcntl"],
  ...["write", "writev", "pwrite64", "pwritev", "pwritev2", "truncate", "ftruncate", "fallocate"],
  ...["renameat2", "linkat", "symlinkat", "unlinkat"],
  ...["mkdirat", "fsync", "fdatasync", "sync_file_range", "syncfs", "sync", "msync"],
  ...["mmap", "lseek", "copy_file_range", "sendfile", "splice"],
  ...["clone", "clone3"],
  // Newer architectures have only the later forms of these; the question mark lets strace do without one.
  ...["?open", "?creat", "?dup2", "?rename", "?renameat", "?link", "?symlink", "?unlink", "?mkdir", "?rmdir"],
  ...["?fork", "?vfork"],
];
/** Longer than any single write of a test. */
const BYTES_MAX = 64 * 1024 * 1024;
const OPTIONS = [
  ...["-f", "--seccomp-bpf", "-qq", "-y", "-xx", "-e", "signal=none", "-s", String(BYTES_MAX)],
  ...["-e", `trace=${CALLS.join(",")}`],
];

/** Why nothing can be recorded here; undefined: it can. */
export function recorderMissing(): string | undefined {
  try {
    execFileSync("strace", [...OPTIONS, "-o", "/dev/null", "true"], { stdio: "ignore" });
    return undefined;
  } catch {
    return "strace is not on PATH, may not trace processes, or lacks an option or a call that the recording needs";
  }
}

/** A moment of a recording: the begin or the end of a call. */
export interface Moment {
  readonly call: SystemCall;
  readonly isEnd: boolean;
}

export interface Recording {
  readonly moments: readonly Moment[];
  /** The folder whose files were recorded. */
  readonly root: string;
}

/** Runs a shell command. Only what it writes below `root`, which is empty, is recorded. Its standard output is recorded as the acknowledgements, so it must be unbuffered. */
export async function record(root: string, command: string, args: readonly string[]): Promise<Recording> {
  const log = `${root}.strace`;
  const child = spawn("strace", [...OPTIONS, "-o", log, "sh", "-c", command, "sh", ...args], {
    stdio: ["ignore", "pipe", "inherit"],
    // The recorder sees no writes that a ring of the kernel carries out, and no order of calls that two threads make at once.
    env: { ...process.env, UV_USE_IO_URING: "0", UV_THREADPOOL_SIZE: "1" },
  });
  const closed = once(child, "close");
  const printed = await text(child.stdout);
  const [code] = await closed;
  if (code !== 0) {
    rmSync(log, { force: true });
    throw new Error(`the recorded program ended with ${code}: ${printed.slice(-2_000)}`);
  }
  const calls = callsOf(readFileSync(log, "latin1"));
  rmSync(log);
  const ends = calls.filter(({ end }) => end !== Number.POSITIVE_INFINITY);
  const moments = [
    ...calls.map((call) => ({ call, isEnd: false })),
    ...ends.map((call) => ({ call, isEnd: true })),
  ];
  const at = ({ call, isEnd }: Moment) => (isEnd ? call.end + 0.5 : call.begin);
  return { root, moments: moments.sort((a, b) => at(a) - at(b)) };
}
