// The processor time of a process as Linux counts it: all its threads, and the kernel's work for them.

import { readFileSync } from "node:fs";

/** The unit of `/proc/<pid>/stat`: Linux reports a hundred ticks a second, independent of its internal tick. */
const TICK_US = 10_000;

/** The processor time in µs from the line in `/proc/<pid>/stat`. */
export function usedIn(stat: string): number {
  // The name in the second field may contain any character, so count from its closing bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

function used(pid: number): number | null {
  try {
    return usedIn(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return null; // the process does not exist, or this is not Linux
  }
}

/** Begins to measure; the result returns the µs that the process has used since. Null: unknown on this machine. */
export function processorTime(pid: number | null): () => number | null {
  const before = pid === null ? null : used(pid);
  return () => {
    const after = before === null || pid === null ? null : used(pid);
    return before === null || after === null ? null : after - before;
  };
}
