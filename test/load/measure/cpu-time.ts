// Processor time that a process has used, all its threads and what the kernel did for them, as Linux counts it.

import { readFileSync } from "node:fs";

/** Of `/proc/<pid>/stat`: Linux shows programs a hundred ticks a second, whatever it uses itself. */
const TICK_US = 10_000;

/** µs from the line in `/proc/<pid>/stat`. */
export function usedIn(stat: string): number {
  // The name in the second field may contain anything, so count from its closing bracket.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

function used(pid: number): number | null {
  try {
    return usedIn(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return null; // no such process, or no such system
  }
}

/** Begins to measure; the result says how many µs the process has used since. null: cannot be known here. */
export function processorTime(pid: number | null): () => number | null {
  const before = pid === null ? null : used(pid);
  return () => {
    const after = before === null || pid === null ? null : used(pid);
    return before === null || after === null ? null : after - before;
  };
}
