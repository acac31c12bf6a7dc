/**
 * Distinguishes a process from a later one with the same id by its start time. Needed before anything is done
 * to a process that a file names, because its id may belong to another process by now.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** Undefined when there is no such process, or when it has ended and only waits to be reaped. */
export function processMark(pid: number): string | undefined {
  return process.platform === "linux" ? linuxMark(pid) : psMark(pid);
}

function linuxMark(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in the second field may contain anything, so count from its closing bracket.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return fields[0] === "Z" ? undefined : `${boot}/${fields[19]}`;
  } catch {
    return undefined;
  }
}

function psMark(pid: number): string | undefined {
  const { status, stdout } = spawnSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" });
  return status === 0 && stdout.trim() !== "" ? stdout.trim() : undefined;
}
