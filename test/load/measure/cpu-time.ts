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

/** The name of a thread and its processor time in µs, from the line in `/proc/<pid>/task/<tid>/stat`. */
export function threadIn(stat: string): { readonly name: string; readonly us: number } {
  return { name: stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")")), us: usedIn(stat) };
}

function threadsOf(pid: number): ReadonlyMap<string, { readonly name: string; readonly us: number }> | null {
  try {
    const found = readdirSync(`/proc/${pid}/task`).flatMap((id) => {
      const thread = threadOf(pid, id);
      return thread === null ? [] : [[id, thread] as const];
    });
    return found.length === 0 ? null : new Map(found);
  } catch {
    return null; // the process does not exist, or this is not Linux
  }
}

/** Null: the thread has ended since it was listed. */
function threadOf(pid: number, id: string): ReturnType<typeof threadIn> | null {
  try {
    return threadIn(readFileSync(`/proc/${pid}/task/${id}/stat`, "utf8"));
  } catch {
    return null;
  }
}

/** Begins to measure the threads of a process; the result returns the µs that they have used since, by their names. Null: unknown. */
export function threadTimes(pid: number): () => ReadonlyMap<string, number> | null {
  const before = threadsOf(pid);
  return () => {
    const after = before === null ? null : threadsOf(pid);
    if (before === null || after === null) return null;
    const used = new Map<string, number>();
    for (const [id, { name, us }] of after)
      used.set(name, (used.get(name) ?? 0) + us - (before.get(id)?.us ?? 0));
    return used;
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
