// The claims that lock a folder where Node has no SQLite: between processes, and against a process that has SQLite.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, expect, test } from "vitest";
import { claimFolder } from "../../../../shared/runtime/process/folder-claims.ts";
import { lockFolder } from "../../../../shared/runtime/process/folder-lock.ts";

const module = new URL("../../../../shared/runtime/process/folder-claims.ts", import.meta.url);
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const now = { waitMs: 0 } as const;
const exclusive = { sharing: "exclusive", ...now } as const;
const shared = { sharing: "shared", ...now } as const;

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "fleet-claims-"));
  cleanups.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Runs a program that has `claimFolder`, and returns the process with the lines of its output. */
function program(code: string): { child: ChildProcess; lines: AsyncIterator<string> } {
  const imports = `import { claimFolder } from ${JSON.stringify(module.href)};`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", `${imports}\n${code}`], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  cleanups.push(() => child.kill("SIGKILL"));
  return { child, lines: createInterface({ input: child.stdout! })[Symbol.asyncIterator]() };
}

/** A process that claims the folder and keeps it until it is killed. */
async function holder(path: string): Promise<ChildProcess> {
  const { child, lines } =
    program(`console.log(claimFolder(${JSON.stringify(path)}, ${JSON.stringify(exclusive)}) !== undefined);
    setInterval(() => {}, 1_000);`);
  expect((await lines.next()).value).toBe("true");
  return child;
}

test("a folder has one exclusive claim, or any number of shared ones", () => {
  const path = folder();
  const first = claimFolder(path, exclusive);
  expect(first).toBeDefined();
  expect([claimFolder(path, exclusive), claimFolder(path, shared)]).toEqual([undefined, undefined]);
  first!.release();
  first!.release();
  const several = [claimFolder(path, shared), claimFolder(path, shared)];
  expect(several).not.toContain(undefined);
  expect(claimFolder(path, exclusive)).toBeUndefined();
  for (const one of several) one!.release();
  expect(readdirSync(path)).toEqual([]);
});

test("the claim of a killed process counts for nothing and is removed", async () => {
  const path = folder();
  const child = await holder(path);
  expect(claimFolder(path, exclusive)).toBeUndefined();
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
  const claim = claimFolder(path, exclusive);
  expect(claim).toBeDefined();
  expect(readdirSync(path)).toHaveLength(1);
});

test("a claim and the lock of a Node with SQLite exclude each other", async () => {
  const path = folder();
  const child = await holder(path);
  expect(lockFolder(path, now)).toBeUndefined();
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
  const lock = lockFolder(path, now);
  expect(lock).toBeDefined();
  expect(claimFolder(path, exclusive)).toBeUndefined();
  lock!.release();
  expect(claimFolder(path, exclusive)).toBeDefined();
});

test("of processes that compete for a folder, no two have it at once, and each gets it", async () => {
  const path = folder();
  const code = `import { rmSync, writeFileSync } from "node:fs";
    const inside = ${JSON.stringify(join(path, "inside"))};
    for (let round = 0; round < 15; round += 1) {
      const claim = claimFolder(${JSON.stringify(path)}, { sharing: "exclusive", waitMs: 60_000 });
      writeFileSync(inside, "", { flag: "wx" }); // fails while another process is inside
      rmSync(inside);
      claim.release();
    }
    console.log("done");`;
  const running = Array.from({ length: 3 }, () => program(code));
  const last = await Promise.all(running.map(({ lines }) => lines.next()));
  expect(last.map(({ value }) => value)).toEqual(["done", "done", "done"]);
});
