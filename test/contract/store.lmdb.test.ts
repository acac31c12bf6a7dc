import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once as event } from "node:events";
import { chmod, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Worker } from "node:worker_threads";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { openLmdb } from "../../shared/store/drivers/lmdb.ts";
import { openMemory } from "../../shared/store/drivers/memory.ts";
import { KEY_SPACE } from "../../shared/store/limits.ts";
import { type Store, StoreError } from "../../shared/store/store.ts";
import { i64Of, look, text, textOf, write } from "./store/space.ts";
import { storeContract } from "./store.ts";

const root = await mkdtemp(join(tmpdir(), "fleet-lmdb-"));
afterAll(() => rm(root, { recursive: true, force: true }));
const directory = () => mkdtemp(join(root, "store-"));

storeContract("lmdb", async () => openLmdb({ path: await directory() }), {
  openWithClock: async (clock) => openLmdb({ path: await directory(), clock }),
});

async function withStore<T>(path: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await openLmdb({ path });
  try {
    return await use(store);
  } finally {
    await store.close({ drainMs: 5_000 });
  }
}

/** All rows that a caller can read, as `key=value` in hex. */
async function dump(store: Store): Promise<string[]> {
  const { rows } = await look(store, (reader) => reader.getRange(KEY_SPACE, { limit: 10_000 }));
  return rows.map(({ key, value }) =>
    [key, value].map((part) => Buffer.from(part).toString("hex")).join("="),
  );
}

describe("lmdb on disk", () => {
  it("tells a directory that cannot be used from one that another process has", async () => {
    const file = join(root, "a-file");
    await writeFile(file, "");
    await expect(openLmdb({ path: join(file, "store") })).rejects.toMatchObject({
      kind: "unavailable",
      message: "the store directory cannot be used",
      details: { problem: expect.stringContaining("ENOTDIR") },
    });
  });

  it("keeps its data and its commit counter when it is closed and opened", async () => {
    const path = await directory();
    const stamp = () =>
      withStore(path, async (store) => (await write(store, async (tx) => tx.addI64(text("n"), 1n))).stamp!);
    const [first, second] = [await stamp(), await stamp()];
    expect(Buffer.compare(first, second)).toBe(-1);
    expect(
      await withStore(path, (store) => look(store, async (reader) => i64Of(await reader.get(text("n"))))),
    ).toBe(2n);
  });

  it("has files that only their user can read, also those of an older version", async () => {
    const path = await directory();
    const modes = () =>
      withStore(path, async () =>
        Promise.all(
          ["data.mdb", "lock.mdb"].map(async (name) => (await stat(join(path, name))).mode & 0o777),
        ),
      );
    expect(await modes()).toEqual([0o600, 0o600]);
    await chmod(join(path, "data.mdb"), 0o644);
    expect(await modes()).toEqual([0o600, 0o600]);
  });

  it("reserves no disk space", async () => {
    const path = await directory();
    await withStore(path, async () => {
      const { blocks } = await stat(join(path, "data.mdb"));
      expect(blocks * 512).toBeLessThan(1_000_000);
    });
  });

  it("has the same bytes as the memory store after the same script", async () => {
    const memory = await openMemory();
    const dumps = [
      await dump(await scripted(memory)),
      await withStore(await directory(), async (store) => dump(await scripted(store))),
    ];
    expect(dumps[0]!.length).toBeGreaterThan(50);
    expect(dumps[1]).toEqual(dumps[0]);
    await memory.close({ drainMs: 0 });
  });

  it("fails permanently when its committing thread dies, and keeps the reported commits", async () => {
    const path = await directory();
    const worker = event(process, "worker");
    const store = await openLmdb({ path });
    const key = (n: number) => text(`k/${n}`);
    const one = (n: number) => write(store, async (tx) => tx.set(key(n), Buffer.alloc(50_000, n)));
    await one(0);
    const running = Array.from({ length: 40 }, (_, n) => one(n + 1));
    const [thread] = (await worker) as [Worker];
    thread.postMessage({ kind: "close" }); // an unexpected end
    const results = await Promise.allSettled(running);
    for (const result of results) {
      if (result.status === "rejected") expect(["commit_unknown", "fatal"]).toContain(result.reason.kind);
    }
    await expect(one(99)).rejects.toMatchObject({ kind: "fatal", committed: "no" });
    expect((await store.health({ timeoutMs: 1_000 })).ok).toBe(false);
    await store.close({ drainMs: 1_000 });
    const kept = results.flatMap(({ status }, n) => (status === "fulfilled" ? [n + 1] : []));
    await withStore(path, async (again) => {
      const values = await look(again, (reader) => reader.getMany([key(0), ...kept.map(key)]));
      expect(values.map((value) => value?.length)).toEqual([50_000, ...kept.map(() => 50_000)]);
    });
  });
});

/** A fixed sequence of every kind of write, including conflicts between attempts. */
async function scripted(store: Store): Promise<Store> {
  for (let n = 0; n < 60; n++) {
    await write(store, async (tx) => {
      tx.set(text(`row/${n}`), Buffer.alloc(n * 100, n));
      tx.addI64(text("sum"), BigInt(n) - 70n);
      tx.byteMax(text("max"), text(String((n * 37) % 60)));
      tx.setStampedKey(text("feed/"), text(`/${n}`), text("entry"));
      tx.setStampedKey(text("feed/"), new Uint8Array(0), new Uint8Array(0));
      tx.setStampedValue(text("newest"), text("<"), text(">"));
      if (n % 7 === 0) tx.clearRange({ begin: text("row/1"), end: text("row/2") });
      if (n % 5 === 0) tx.clear(text(`row/${n - 1}`));
    });
    await write(store, async (tx) => {
      tx.set(text("seen"), text(textOf(await tx.get(text("other"))) ?? "nothing"));
      if (tx.attempt === 1) await write(store, async (other) => other.set(text("other"), text(String(n))));
    });
  }
  return store;
}

function startCommitter(
  path: string,
  ...end: string[]
): { child: ChildProcess; lines: AsyncIterator<string> } {
  const script = new URL("./store/committer.ts", import.meta.url).pathname;
  const child = spawn(process.execPath, [script, path, ...end], {
    stdio: ["ignore", "pipe", end.length === 0 ? "inherit" : "ignore"],
  });
  return { child, lines: createInterface({ input: child.stdout! })[Symbol.asyncIterator]() };
}

describe("lmdb and other processes", () => {
  it("loses no reported commit when the process is killed in the middle of commits", async () => {
    const path = await directory();
    for (let round = 0; round < 3; round++) {
      const before = await withStore(path, (store) => committed(store));
      const { child, lines } = startCommitter(path);
      expect((await lines.next()).value).toBe("open");
      const reported: number[] = [];
      const enough = 40 + round * 30;
      for (let line = await lines.next(); !line.done; line = await lines.next()) {
        reported.push(Number(line.value));
        // Further lines were printed before the kill, so their commits were reported too.
        if (reported.length === enough) child.kill("SIGKILL");
      }
      await withStore(path, async (store) => {
        const after = await committed(store);
        for (const n of reported) expect(after.numbers).toContain(n);
        expect(after.count - before.count).toBeGreaterThanOrEqual(BigInt(reported.length));
      });
    }
  });

  // Six times, because it must happen while a batch is being applied.
  it.each(["exit", "throw", "exit", "throw", "exit", "throw"])(
    "does not hang a process that ends with %s",
    async (end) => {
      const path = await directory();
      const { child } = startCommitter(path, end);
      child.stdout!.resume();
      try {
        const [code] = await event(child, "exit", { signal: AbortSignal.timeout(100_000) });
        expect(code).toBe(end === "exit" ? 7 : 1);
      } finally {
        child.kill("SIGKILL");
      }
      await withStore(path, (store) => committed(store));
    },
  );

  it("refuses a directory that another process holds, with its id, until that process has ended", async () => {
    const path = await directory();
    const { child, lines } = startCommitter(path);
    expect((await lines.next()).value).toBe("open");
    const refused = openLmdb({ path });
    await expect(refused).rejects.toBeInstanceOf(StoreError);
    await expect(refused).rejects.toMatchObject({ kind: "unavailable", details: { path, pid: child.pid } });
    const exited = event(child, "exit");
    child.kill("SIGKILL");
    await exited;
    await withStore(path, async (store) => {
      await expect(openLmdb({ path })).rejects.toMatchObject({ details: { path, pid: process.pid } });
      expect((await store.health({ timeoutMs: 5_000 })).ok).toBe(true);
    });
  });
});

/**
 * The content of a committer's store: each of its transactions has both rows, and their number is its
 * counter.
 */
async function committed(store: Store): Promise<{ numbers: number[]; count: bigint }> {
  return await look(store, async (reader) => {
    const numbersOf = async (kind: string) => {
      const range = { begin: text(`${kind}/`), end: text(`${kind}0`) };
      const { rows } = await reader.getRange(range, { limit: 10_000 });
      return rows.map(({ key }) => Number(textOf(key)?.slice(2)));
    };
    const numbers = await numbersOf("a");
    expect(await numbersOf("b")).toEqual(numbers);
    const count = i64Of(await reader.get(text("count"))) ?? 0n;
    expect(count).toBeGreaterThanOrEqual(BigInt(numbers.length)); // each round writes the same keys
    return { numbers, count };
  });
}

/** A file system of 8 MB, or the reason why there is none. */
function mountSmall(path: string): string | undefined {
  if (process.platform !== "linux" || process.getuid?.() !== 0)
    return "mounting a small tmpfs needs root on Linux";
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=8m", "tmpfs", path], { stdio: "pipe" });
    return undefined;
  } catch {
    return "this system does not let root mount a tmpfs";
  }
}

describe("lmdb on a full disk", () => {
  it("refuses commits without a partial write, still reads, and works again when there is space", async (context) => {
    const small = await directory();
    const unmountable = mountSmall(small);
    if (unmountable !== undefined) return context.skip(unmountable);
    onTestFinished(() => {
      execFileSync("umount", ["-l", small]);
    });
    const ballast = join(small, "ballast");
    await writeFile(ballast, Buffer.alloc(4_000_000));
    await withStore(join(small, "store"), async (store) => {
      const put = (n: number) =>
        write(store, async (tx) => {
          for (let part = 0; part < 4; part++) tx.set(text(`${n}/${part}`), Buffer.alloc(20_000, n));
        });
      let n = 0;
      let failure: unknown;
      while (failure === undefined) {
        failure = await put(n).then(
          () => undefined,
          (error: unknown) => error,
        );
        n += failure === undefined ? 1 : 0;
      }
      expect(failure).toMatchObject({ kind: "unavailable", committed: "no" });
      expect(await dump(store)).toHaveLength(n * 4);
      await rm(ballast);
      await put(n);
      expect(await dump(store)).toHaveLength((n + 1) * 4);
    });
  });
});
