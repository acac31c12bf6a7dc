// Stops a process so that it is alive and never answers.
import { existsSync, readFileSync } from "node:fs";

/** SIGSTOP; returns when all threads are stopped: the signal takes a moment to reach each, in which it would still answer. */
export function pauseProcess(pid: number): void {
  process.kill(pid, "SIGSTOP");
  while (existsSync(`/proc/${pid}/stat`) && !isStopped(pid));
}

function isStopped(pid: number): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
}
