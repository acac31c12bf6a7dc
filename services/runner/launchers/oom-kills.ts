/**
 * The system's count of kills for lack of memory, the only evidence that distinguishes them from any other SIGKILL. The count is of the
 * control group if there is one, otherwise of the whole machine, so it is a hint and not proof.
 */
import { readFileSync } from "node:fs";

/** null if the system keeps no count. */
export function memoryKills(): number | null {
  for (const path of countFiles()) {
    const count = read(path);
    if (count !== null) return count;
  }
  return null;
}

/** The count in the text of `memory.events` or `/proc/vmstat`; null if it has none. */
export function killsIn(text: string): number | null {
  const found = /^oom_kill (\d+)$/m.exec(text)?.[1];
  return found === undefined ? null : Number(found);
}

function countFiles(): string[] {
  if (process.platform !== "linux") return [];
  const group = readText("/proc/self/cgroup")?.match(/^0::(\/.*)$/m)?.[1];
  const ofGroup = group === undefined ? [] : [`/sys/fs/cgroup${group === "/" ? "" : group}/memory.events`];
  return [...ofGroup, "/proc/vmstat"];
}

function read(path: string): number | null {
  const text = readText(path);
  return text === undefined ? null : killsIn(text);
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
