// Runs programs under `strace` and repeats what they did to the files of a folder on a recorded disk, step by step.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { text } from "node:stream/consumers";
import { callsOf, type SystemCall } from "./strace-log.ts";

/** Every call that changes files or brings them to the disk, and those that tell which descriptor leads to which file. */
const CALLS = [
  ...["open", "openat", "openat2", "creat", "close", "dup", "dup2", "dup3", "fcntl"],
  ...["write", "writev", "pwrite64", "pwritev", "pwritev2", "truncate", "ftruncate", "fallocate"],
  ...["rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat"],
  ...["mkdir", "mkdirat", "rmdir", "fsync", "fdatasync", "sync_file_range", "syncfs", "sync", "msync"],
  ...["mmap", "lseek", "copy_file_range", "sendfile", "splice"],
  ...["clone", "clone3", "fork", "vfork"],
];
/** Longer than any single write of a test. */
const BYTES_MAX = 64 * 1024 * 1024;

/** Why nothing can be recorded here; undefined: it can. */
export function recorderMissing(): string | undefined {
  try {
    execFileSync("strace", ["-f", "-e", "trace=none", "true"], { stdio: "ignore" });
    return undefined;
  } catch {
    return "strace is not on PATH, or may not trace processes";
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
  const options = ["-f", "--seccomp-bpf", "-qq", "-y", "-xx", "-e", "signal=none", "-s", String(BYTES_MAX)];
  const child = spawn(
    "strace",
    [...options, "-e", `trace=${CALLS.join(",")}`, "-o", log, "sh", "-c", command, "sh", ...args],
    {
      stdio: ["ignore", "pipe", "inherit"],
      // The recorder sees no writes that a ring of the kernel carries out, and no order of calls that two threads make at once.
      env: { ...process.env, UV_USE_IO_URING: "0", UV_THREADPOOL_SIZE: "1" },
    },
  );
  const closed = once(child, "close");
  const printed = await text(child.stdout);
  const [code] = await closed;
  if (code !== 0) throw new Error(`the recorded program ended with ${code}: ${printed.slice(-2_000)}`);
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
