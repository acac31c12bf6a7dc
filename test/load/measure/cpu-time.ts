// What a process takes from its machine, as Linux counts it: the processor time of all its threads and of the kernel's work for them, and its
// memory.

import { readdirSync, readFileSync } from "node:fs";

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

/** The process and all that descend from it. Empty: unknown on this machine. */
export function processTree(pid: number): number[] {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    const children = threads.flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
    );
    return [pid, ...children.flatMap(processTree)];
  } catch {
    return [];
  }
}

/** The resident bytes in the text of `/proc/<pid>/status`. Null: it has none. */
export function residentIn(status: string): number | null {
  const kib = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
  return kib === undefined ? null : Number(kib) * 1_024;
}

/** The resident bytes of all processes together; memory that they share counts for each. Null: unknown on this machine. */
export function residentBytes(pids: readonly number[]): number | null {
  try {
    const all = pids.map((pid) => residentIn(readFileSync(`/proc/${pid}/status`, "utf8")));
    return all.length === 0
      ? null
      : all.reduce((sum, bytes) => (bytes === null ? sum : (sum ?? 0) + bytes), null);
  } catch {
    return null;
  }
}
