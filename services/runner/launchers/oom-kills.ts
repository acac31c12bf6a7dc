/**
 * Whether the system killed something for want of memory: the only evidence that tells such an end from any other SIGKILL. Counted by
 * the control group where there is one, else by the whole machine, so it is a hint and no proof.
 */
import { readFileSync } from "node:fs";

/** null where the system does not count. */
export function memoryKills(): number | null {
  for (const path of places()) {
    const count = read(path);
    if (count !== null) return count;
  }
  return null;
}

/** The count of kills in `memory.events` or `/proc/vmstat`; null when the text has none. */
export function killsIn(text: string): number | null {
  const found = /^oom_kill (\d+)$/m.exec(text)?.[1];
  return found === undefined ? null : Number(found);
}

function places(): string[] {
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
