import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  processorTime,
  processTree,
  residentBytes,
  residentIn,
  threadIn,
  threadTimes,
  usedIn,
} from "./cpu-time.ts";

const SPIN_US = 200_000;

/** Uses the processor, however long a busy machine takes for it. Returns the used µs. */
function spin(from: NodeJS.CpuUsage): number {
  for (;;) {
    const { user, system } = process.cpuUsage(from);
    if (user + system >= SPIN_US) return user + system;
  }
}

test("adds user and system time, for any process name", () => {
  const stat = "42 (a) b) 7 9) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 900 900 20 0 11 0 12345 1000000 500\n";
  expect(usedIn(stat)).toBe(3_000_000);
});

describe("the processor time of a process", () => {
  test.runIf(existsSync("/proc/self/stat"))("is close to the process's own figure", () => {
    const own = process.cpuUsage();
    const measured = processorTime(process.pid);
    const used = spin(own);
    expect(Math.abs(measured()! - used)).toBeLessThan(used / 2);
  });

  test("is null when there is no such process", () => {
    expect(processorTime(null)()).toBeNull();
    expect(processorTime(2 ** 31 - 1)()).toBeNull();
  });
});

describe("the processor time of threads", () => {
  test("has the name of the thread, which may contain any character", () => {
    const stat = "43 (a) b) S 1 42 42 0 -1 4194560 100 0 0 0 2 1 0 0 20 0 11 0 12345 1000000 500\n";
    expect(threadIn(stat)).toEqual({ name: "a) b", us: 30_000 });
  });

  test.runIf(existsSync("/proc/self/stat"))("adds up to that of the process", () => {
    const ofProcess = processorTime(process.pid);
    const ofThreads = threadTimes(process.pid);
    spin(process.cpuUsage());
    const sum = [...ofThreads()!.values()].reduce((all, us) => all + us, 0);
    expect(sum).toBeGreaterThan(0);
    expect(Math.abs(sum - ofProcess()!)).toBeLessThan(sum / 2);
  });

  test("is null when there is no such process", () => {
    expect(threadTimes(2 ** 31 - 1)()).toBeNull();
  });
});

test("the resident memory is read in bytes", () => {
  expect(residentIn("Name:\tnode\nVmHWM:\t  300 kB\nVmRSS:\t  250 kB\nThreads:\t1\n")).toBe(256_000);
  expect(residentIn("Name:\tkthread\n")).toBeNull();
});

test.runIf(process.platform === "linux")(
  "the processes that a process started count as its own",
  async () => {
    const child = spawn("sh", ["-c", "sleep 60 & echo started; wait"], {
      stdio: ["ignore", "pipe", "ignore"],
      detached: true,
    });
    try {
      await once(child.stdout, "data");
      const all = processTree(child.pid!);
      expect(all[0]).toBe(child.pid);
      expect(all).toHaveLength(2);
      expect(residentBytes(all)).toBeGreaterThan(residentBytes([child.pid!])!);
      expect(processTree(process.pid)).toEqual(expect.arrayContaining(all));
    } finally {
      process.kill(-child.pid!, "SIGKILL");
    }
  },
);

test("a process that does not exist has no figures", () => {
  expect(processTree(2 ** 30)).toEqual([]);
  expect(residentBytes([])).toBeNull();
});
