// Stops a process: it stays alive and never answers.
import { existsSync, readFileSync } from "node:fs";

/** Sends SIGSTOP and returns when all threads are stopped. Until the signal has reached a thread, that thread would still answer. */
export function pauseProcess(pid: number): void {
  process.kill(pid, "SIGSTOP");
  while (existsSync(`/proc/${pid}/stat`) && !isStopped(pid));
}

function isStopped(pid: number): boolean {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
}
