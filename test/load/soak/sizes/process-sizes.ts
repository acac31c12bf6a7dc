// What Linux counts for a process, and what its threads have written about themselves.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Kind, ThreadSample } from "./sample.ts";

type ProcessValues = Partial<Record<Kind, number>>;

/** undefined: the process does not exist. */
export function processSizes(pid: number, probeFolder: string): ProcessValues | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    const descriptors = readdirSync(`/proc/${pid}/fd`).length;
    return { ...sizesIn(status), descriptors, ...threadSizes(pid, probeFolder) };
  } catch {
    return undefined;
  }
}

/** From the text of `/proc/<pid>/status`. Mapped files, such as the store, are in the resident memory and not in the anonymous one. */
function sizesIn(status: string): ProcessValues {
  const number = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)?.[1]);
  return {
    resident: number("VmRSS") * 1_024,
    anonymous: number("RssAnon") * 1_024,
    threads: number("Threads"),
  };
}

/** The sum of the threads that have reported; nothing for a process that is not of Node. */
function threadSizes(pid: number, folder: string): ProcessValues {
  const threads = threadSamples(pid, folder);
  if (threads.length === 0) return {};
  const sum = (of: (one: ThreadSample) => number) => threads.reduce((total, one) => total + of(one), 0);
  return {
    live_heap: sum((one) => one.live_heap),
    external: sum((one) => one.external),
    handles: sum(({ handles }) => Object.values(handles).reduce((total, one) => total + one, 0)),
  };
}

function threadSamples(pid: number, folder: string): ThreadSample[] {
  return readdirSync(folder)
    .filter((name) => name.startsWith(`${pid}-`) && name.endsWith(".json"))
    .map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")) as ThreadSample);
}
