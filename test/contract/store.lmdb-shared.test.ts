// Several real processes on one LMDB directory: each reported commit is there, once, in one order, and the
// others see it at once, even when one of them is killed in the middle.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { openLmdb } from "../../shared/store/drivers/lmdb.ts";
import type { Store } from "../../shared/store/store.ts";
import { look, text, textOf, write } from "./store/space.ts";
import { storeContract } from "./store.ts";

const root = await mkdtemp(join(tmpdir(), "fleet-lmdb-shared-"));
afterAll(() => rm(root, { recursive: true, force: true }));
const directory = () => mkdtemp(join(root, "store-"));

storeContract("lmdb, shared", async () => openLmdb({ path: await directory(), sharing: "shared" }), {
  openWithClock: async (clock) => openLmdb({ path: await directory(), clock, sharing: "shared" }),
});

async function shared(path: string): Promise<Store> {
  const store = await openLmdb({ path, sharing: "shared" });
  onTestFinished(() => store.close({ drainMs: 5_000 }));
  return store;
}

interface Sharer {
  readonly child: ChildProcess;
  readonly lines: AsyncIterator<string>;
}

async function startSharer(path: string, rounds: number): Promise<Sharer> {
  const script = fileURLToPath(new URL("./store/sharer.ts", import.meta.url));
  const child = spawn(process.execPath, [script, path, String(rounds)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  expect((await lines.next()).value).toBe("open");
  return { child, lines };
}

/** All values that it prints until it is done or dead. */
async function toEnd({ lines }: Sharer, seen: (count: number) => void = () => {}): Promise<number[]> {
  const values: number[] = [];
  for (let line = await lines.next(); !line.done && line.value !== "done"; line = await lines.next()) {
    values.push(Number(line.value));
    seen(values.length);
  }
  return values;
}

const counterOf = (store: Store) =>
  look(store, async (reader) => Number(textOf(await reader.get(text("counter"))) ?? 0));

it("no two processes commit the same step, and none is lost", async () => {
  const path = await directory();
  const store = await shared(path);
  const sharers = await Promise.all([1, 2, 3].map(() => startSharer(path, 25)));
  const values = (await Promise.all(sharers.map((one) => toEnd(one)))).flat();
  expect(values.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 300 }, (_, n) => n + 1));
  expect(await counterOf(store)).toBe(300);
});

it("a process that is killed in the middle loses no commit and blocks no other process", async () => {
  const path = await directory();
  const store = await shared(path);
  for (let round = 0; round < 3; round++) {
    const [victim, other] = await Promise.all([startSharer(path, 10_000), startSharer(path, 60)]);
    const enough = 30 + 40 * round;
    const [killed, whole] = await Promise.all([
      toEnd(victim, (count) => count === enough && victim.child.kill("SIGKILL")),
      toEnd(other),
    ]);
    expect(whole).toHaveLength(240);
    const reported = [...killed, ...whole];
    expect(new Set(reported).size).toBe(reported.length);
    const counter = await counterOf(store);
    const owners = await look(store, (reader) => reader.getMany(reported.map((n) => text(`by/${n}`))));
    expect(reported.map((_, n) => textOf(owners[n]))).toEqual([
      ...killed.map(() => String(victim.child.pid)),
      ...whole.map(() => String(other.child.pid)),
    ]);
    expect(counter).toBeGreaterThanOrEqual(Math.max(...reported));
  }
}, 120_000);

it("another process sees a commit at once, and its waits are woken", async () => {
  const path = await directory();
  const store = await shared(path);
  const { child, lines } = await startSharer(path, 0);
  expect((await lines.next()).value).toBe("done");
  for (let n = 1; n <= 50; n++) {
    await write(store, async (tx) => tx.set(text("counter"), text(String(n))));
    child.stdin!.write("?\n");
    expect((await lines.next()).value).toBe(`= ${n}`);
  }
  // In the other direction: it writes, and this process waits for the change without a poll of the key.
  const changed = store.changed(text("counter"), text("50"), {
    signal: AbortSignal.timeout(20_000),
    pollMs: 600_000,
  });
  const second = await startSharer(path, 1);
  await changed;
  expect(await toEnd(second)).toHaveLength(4);
  child.stdin!.end();
  second.child.stdin!.end();
  await once(second.child, "exit");
});

it("an exclusive opening is refused while the directory is shared, and vice versa", async () => {
  const path = await directory();
  const first = await openLmdb({ path, sharing: "shared" });
  await expect(openLmdb({ path })).rejects.toMatchObject({ kind: "unavailable", details: { path } });
  await first.close({ drainMs: 1_000 });
  const alone = await openLmdb({ path });
  await expect(openLmdb({ path, sharing: "shared" })).rejects.toMatchObject({ kind: "unavailable" });
  await alone.close({ drainMs: 1_000 });
});
