// The lock of a folder: one holder among processes and threads, which loses it when it dies, in any way.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Worker } from "node:worker_threads";
import { afterEach, expect, test } from "vitest";
import {
  type FolderLock,
  type FolderLockOptions,
  lockFolder,
  lockHolder,
} from "../../../../shared/runtime/process/folder-lock.ts";

const module = new URL("../../../../shared/runtime/process/folder-lock.ts", import.meta.url);
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "fleet-lock-"));
  cleanups.push(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function lock(path: string, options?: FolderLockOptions): FolderLock | undefined {
  const held = lockFolder(path, { waitMs: 0, ...options });
  if (held !== undefined) cleanups.push(() => held.release());
  return held;
}

interface OtherProcess {
  readonly child: ChildProcess;
  /** Lets it try to lock a folder, and resolves with its success. */
  attempt(path: string): Promise<boolean>;
}

/** A process that keeps its locks until it is killed. */
async function otherProcess(): Promise<OtherProcess> {
  const code = `import { lockFolder } from ${JSON.stringify(module.href)};
    import { createInterface } from "node:readline";
    globalThis.locks = [];
    createInterface({ input: process.stdin }).on("line", (path) => {
      const lock = lockFolder(path);
      globalThis.locks.push(lock);
      console.log(lock !== undefined);
    });
    console.log("ready");`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  cleanups.push(() => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  await lines.next();
  return {
    child,
    async attempt(path) {
      child.stdin!.write(`${path}\n`);
      return (await lines.next()).value === "true";
    },
  };
}

test("has one holder in a process until it is released", () => {
  const path = folder();
  const first = lock(path);
  expect(first).toBeDefined();
  expect(lock(path)).toBeUndefined();
  first!.release();
  const second = lock(path);
  expect(second).toBeDefined();
  first!.release();
  expect(lock(path)).toBeUndefined();
});

test("is held by another process until that is killed", async () => {
  const path = folder();
  const other = await otherProcess();
  expect(await other.attempt(path)).toBe(true);
  expect(lock(path)).toBeUndefined();
  expect(lockHolder(path)).toBe(other.child.pid);
  const exited = once(other.child, "exit");
  other.child.kill("SIGKILL");
  await exited;
  expect(lock(path)).toBeDefined();
  expect(lockHolder(path)).toBe(process.pid);
});

test("is held by another thread until that ends", async () => {
  const path = folder();
  const code = `import(${JSON.stringify(module.href)}).then(({ lockFolder }) => {
    globalThis.held = lockFolder(${JSON.stringify(path)});
    require("node:worker_threads").parentPort.postMessage("locked");
    setInterval(() => {}, 1_000);
  });`;
  const thread = new Worker(code, { eval: true });
  cleanups.push(() => thread.terminate());
  await once(thread, "message");
  expect(lock(path)).toBeUndefined();
  await thread.terminate();
  expect(lock(path)).toBeDefined();
});

test("of several processes that try at once, exactly one succeeds", async () => {
  const others = await Promise.all(Array.from({ length: 4 }, otherProcess));
  for (let round = 0; round < 10; round += 1) {
    const path = folder();
    const succeeded = await Promise.all(others.map((other) => other.attempt(path)));
    expect(succeeded.filter((one) => one)).toHaveLength(1);
  }
});

test("is shared by any number that agreed to, and excludes the others", () => {
  const path = folder();
  const shared = [1, 2, 3].map(() => lock(path, { sharing: "shared" }));
  expect(shared).not.toContain(undefined);
  expect(lock(path)).toBeUndefined();
  for (const one of shared) one!.release();
  expect(lock(path)).toBeDefined();
  expect(lock(path, { sharing: "shared" })).toBeUndefined();
});

test("a folder that is missing or none is an error with its cause", () => {
  const path = folder();
  expect(() => lock(join(path, "missing"))).toThrow(expect.objectContaining({ code: "ENOENT" }));
  writeFileSync(join(path, "file"), "");
  expect(() => lock(join(path, "file", "below"))).toThrow(expect.objectContaining({ code: "ENOTDIR" }));
});

test("a process that wrote no id holds it as well", () => {
  const path = folder();
  expect(lock(path)).toBeDefined();
  rmSync(join(path, "lock.pid"));
  expect([lock(path), lockHolder(path)]).toEqual([undefined, null]);
});

test("a lock of another user is not permitted, which is an error and no holder", () => {
  const path = folder();
  lock(path)?.release();
  chmodSync(path, 0o777);
  chmodSync(join(path, "lock.sqlite"), 0o400);
  // Root may write everything, so the process becomes another user once it has loaded its code.
  const code = `import { lockFolder } from ${JSON.stringify(module.href)};
    if (process.getuid() === 0) process.setuid(65534);
    try {
      console.log(lockFolder(${JSON.stringify(path)}) === undefined ? "held" : "locked");
    } catch (error) {
      console.log(error.code);
    }`;
  const { stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" });
  expect(stdout).toBe("EACCES\n");
});
