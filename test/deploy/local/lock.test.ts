// One setup at a time, with real processes: no two hold the lock, no matter which one is killed.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { local, put, scratchFolder } from "./scratch.ts";

const script = (body: string) => `import { takeLock } from ${JSON.stringify(join(local, "lock.mjs"))};
import { appendFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
const [path, log] = process.argv.slice(1);
const lock = await takeLock(path, () => console.log("waits"));
${body}`;

function run(body: string, ...args: string[]): ChildProcess {
  const child = spawn(process.execPath, ["--input-type=module", "-e", script(body), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

const turn = 'appendFileSync(log, "in "); await pause(20); appendFileSync(log, "out "); lock.release();';

async function takeTurns(folder: string, count: number): Promise<void> {
  const log = join(folder, "log");
  const exits = Array.from({ length: count }, () => once(run(turn, join(folder, "lock"), log), "exit"));
  for (const [code] of await Promise.all(exits)) expect(code).toBe(0);
  expect(readFileSync(log, "utf8")).toBe("in out ".repeat(count));
  expect(existsSync(join(folder, "lock"))).toBe(false);
}

test("concurrent processes hold the lock one after the other", async () => takeTurns(scratchFolder(), 5));

test("one of many processes takes over the lock of a killed one", async () => {
  const folder = scratchFolder();
  const holder = run('console.log("holds"); await pause(60_000);', join(folder, "lock"));
  await once(holder.stdout!, "data");
  holder.kill("SIGKILL");
  await once(holder, "exit");
  expect(existsSync(join(folder, "lock"))).toBe(true);
  await takeTurns(folder, 3);
});

test("a running child of a killed process keeps the lock", async () => {
  const folder = scratchFolder();
  const worker = spawn("sleep", ["60"]);
  onTestFinished(() => void worker.kill("SIGKILL"));
  const killed = spawn("true");
  await once(killed, "exit");
  put(join(folder, "lock"), JSON.stringify({ host: hostname(), pids: [killed.pid, worker.pid] }));

  const waiting = run(turn, join(folder, "lock"), join(folder, "log"));
  expect(String((await once(waiting.stdout!, "data"))[0])).toBe("waits\n");
  expect(existsSync(join(folder, "log"))).toBe(false);
  worker.kill("SIGKILL");
  await once(worker, "exit");
  expect((await once(waiting, "exit"))[0]).toBe(0);
  expect(readFileSync(join(folder, "log"), "utf8")).toBe("in out ");
});
