// LMDB loses a commit that another process makes while it opens the environment: see opening-lock.ts.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { afterAll, expect, it, onTestFinished } from "vitest";
import { openLmdb } from "../../../../shared/store/drivers/lmdb.ts";
import { ClaimLock } from "../../../../shared/store/lmdb/claim-lock.ts";
import { OpeningLock } from "../../../../shared/store/lmdb/opening-lock.ts";
import { text, write } from "../../../contract/store/space.ts";

const root = mkdtempSync(join(tmpdir(), "fleet-opening-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const directory = (): string => mkdtempSync(join(root, "store-"));

/** Holds the lock in another thread. */
async function holdLock(folder: string, how: "open" | "commit") {
  const state = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL("./opening-holder.ts", import.meta.url), {
    workerData: { folder, how, state },
  });
  const ended = once(worker, "exit");
  onTestFinished(() => void worker.terminate());
  await Atomics.waitAsync(state, 0, 0).value;
  expect(state[0]).toBe(1);
  return async (): Promise<void> => {
    Atomics.store(state, 0, 2);
    Atomics.notify(state, 0);
    await ended;
  };
}

/** A process that opens the store and prints "open". */
function startSharer(path: string): ChildProcess {
  const script = fileURLToPath(new URL("../../../contract/store/sharer.ts", import.meta.url));
  const child = spawn(process.execPath, [script, path, "1"], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

it("a commit waits until another process has opened the store", async () => {
  const path = directory();
  const store = await openLmdb({ path, sharing: "shared" });
  onTestFinished(() => store.close({ drainMs: 5_000 }));
  const other = await openLmdb({ path: directory() });
  onTestFinished(() => other.close({ drainMs: 5_000 }));
  const release = await holdLock(path, "open");
  let isCommitted = false;
  const committed = write(store, async (writer) => writer.set(text("key"), text("value"))).then(() => {
    isCommitted = true;
  });
  // A commit in the folder beside it takes as long, and shows that this one had its time.
  for (let n = 0; n < 3; n += 1) await write(other, async (writer) => writer.set(text("key"), text(`${n}`)));
  expect(isCommitted).toBe(false);
  await release();
  await committed;
});

it("a process opens the store only between commits, and no commit begins meanwhile", async () => {
  const path = directory();
  const release = await holdLock(path, "commit");
  const child = startSharer(path);
  let isOpen = false;
  const opened = once(child.stdout!, "data").then(() => {
    isOpen = true;
  });
  const lock = new OpeningLock(path, { waitMs: 0 });
  onTestFinished(() => lock.close());
  // The opening waits in front of further commits as soon as the process has started.
  await expect
    .poll(() => attempt(() => lock.commit(() => true)), { timeout: 100_000 })
    .toEqual("another process opens or changes the store for too long");
  expect(isOpen).toBe(false);
  await release();
  await opened;
  expect(lock.commit(() => true)).toBe(true);
});

it("an opening is not kept waiting by commits that overlap", async () => {
  const folder = directory();
  const [first, second] = [await holdLock(folder, "commit"), await holdLock(folder, "commit")];
  await first();
  const opening = holdLock(folder, "open");
  const lock = new OpeningLock(folder, { waitMs: 0 });
  await expect.poll(() => attempt(() => lock.commit(() => true)), { timeout: 100_000 }).not.toBe(true);
  await second();
  const opened = await opening;
  expect(attempt(() => lock.commit(() => true))).not.toBe(true);
  await opened();
  expect(lock.commit(() => true)).toBe(true);
  lock.close();
});

it("commits do not wait for each other", async () => {
  const folder = directory();
  const release = await holdLock(folder, "commit");
  const lock = new OpeningLock(folder, { waitMs: 0 });
  expect(lock.commit(() => "done")).toBe("done");
  expect(attempt(() => lock.open(() => true))).toBe(
    "another process opens or changes the store for too long",
  );
  await release();
  expect(lock.open(() => "done")).toBe("done");
  lock.close();
});

it("the error of a commit passes, and the lock is free again", () => {
  const folder = directory();
  const [one, other] = [new OpeningLock(folder, { waitMs: 0 }), new OpeningLock(folder, { waitMs: 0 })];
  const fail = (): never => {
    throw new Error("no space");
  };
  expect(attempt(() => one.commit(fail))).toBe("no space");
  expect(attempt(() => one.open(fail))).toBe("no space");
  expect(other.open(() => "done")).toBe("done");
  one.close();
  other.close();
});

function attempt<T>(work: () => T): T | string {
  try {
    return work();
  } catch (error) {
    return (error as Error).message;
  }
}

it("without SQLite, openings and commits exclude each other as well", () => {
  const folder = join(directory(), "claims");
  const [one, other] = [new ClaimLock(folder, 0), new ClaimLock(folder, 0)];
  const busy = "another process opens or changes the store for too long";
  expect(one.share(() => [other.share(() => "done"), attempt(() => other.takeAlone(() => true))])).toEqual([
    "done",
    busy,
  ]);
  expect(one.takeAlone(() => [attempt(() => other.pass()), attempt(() => other.share(() => true))])).toEqual([
    busy,
    busy,
  ]);
  expect(
    attempt(() =>
      one.takeAlone(() => {
        throw new Error("no space");
      }),
    ),
  ).toBe("no space");
  expect(other.takeAlone(() => "done")).toBe("done");
});
