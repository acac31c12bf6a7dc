// The behaviour of the FoundationDB driver that needs a real server, or its real absence, beyond the common
// contract.
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFoundationdb } from "../../../shared/store/drivers/foundationdb.ts";
import { type Store, StoreError } from "../../../shared/store/store.ts";
import {
  type FoundationdbServer,
  missingFoundationdb,
  startFoundationdb,
} from "../../harness/stores/foundationdb.ts";

const run = promisify(execFile);
const missing = await missingFoundationdb();
const driver = new URL("../../../shared/store/drivers/foundationdb.ts", import.meta.url).href;

const key = (name: string) => Buffer.from(`\x02server/${name}`);
const once = (label: string, deadlineMs: number) => ({ label, deadlineMs, onUnknown: "unsafe" }) as const;
const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    (error) => (error instanceof StoreError ? error : undefined),
  );

describe.skipIf(missing !== undefined)("an absent cluster", () => {
  let directory: string;
  let store: Store;

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "fleet-fdb-"));
    const clusterFile = join(directory, "fdb.cluster");
    await writeFile(clusterFile, "absent:absent@127.0.0.1:1\n");
    store = await openFoundationdb({ clusterFile, timeoutMs: 200 });
  });

  afterAll(async () => {
    await store?.close({ drainMs: 100 });
    await rm(directory, { recursive: true, force: true });
  });

  test("ends every operation at its deadline, over several attempts", async () => {
    const startedAt = performance.now();
    const error = await failure(store.transact(once("absent", 700), async (tx) => tx.get(key("a"))));
    expect([error?.kind, error?.committed]).toEqual(["deadline", "no"]);
    expect(error?.details.attempts).toBeGreaterThan(1);
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  test("a commit that gets no answer is reported as one that may still land", async () => {
    const error = await failure(
      store.transact(once("absent", 150), async (tx) => tx.set(key("a"), Buffer.of(1))),
    );
    expect([error?.kind, error?.committed]).toEqual(["commit_unknown", "maybe_in_flight"]);
  });

  test("is unhealthy within the given time, and a waiting reader is woken by its poll", async () => {
    const signal = new AbortController().signal;
    const [health] = await Promise.all([
      store.health({ timeoutMs: 300 }),
      store.changed(key("a"), undefined, { signal, pollMs: 300 }),
    ]);
    expect(health.ok).toBe(false);
  });
});

describe.skipIf(missing !== undefined)("a server", () => {
  let server: FoundationdbServer;
  let store: Store;

  beforeAll(async () => {
    server = await startFoundationdb();
    store = await openFoundationdb({ clusterFile: server.clusterFile, timeoutMs: 1_000 });
  });

  afterAll(async () => {
    await store?.close({ drainMs: 1_000 });
    await server?.stop();
  });

  test("is probed by a read and a commit without a trace", async () => {
    const health = await store.health({ timeoutMs: 5_000 });
    expect(health).toMatchObject({ ok: true, commitProbeMs: expect.any(Number) });
    const all = { begin: Buffer.of(0), end: Buffer.of(1) };
    const page = await store.read(once("look", 5_000), (reader) => reader.getRange(all, { limit: 10 }));
    expect(page.rows).toEqual([]);
  });

  test("each attempt has its own timeout, so an operation survives a pause longer than that", async (context) => {
    const { control } = server;
    if (control === undefined) return context.skip("the cluster was not started here");
    await control.pause();
    try {
      const paused = await failure(store.read(once("paused", 300), (reader) => reader.get(key("p"))));
      expect(paused?.kind).toBe("deadline");
      const outliving = store.transact(
        { ...once("outliving", 20_000), onUnknown: "safe", priority: "batch" },
        async (tx) => {
          if (tx.attempt === 3) await control.continue();
          await tx.get(key("p"));
          tx.set(key("p"), Buffer.of(tx.attempt));
        },
      );
      expect((await outliving).attempts).toBeGreaterThanOrEqual(3);
    } finally {
      await control.continue();
    }
  });

  test("commits survive a kill of the server", async (context) => {
    const { control } = server;
    if (control === undefined) return context.skip("the cluster was not started here");
    const { stamp } = await store.transact({ ...once("durable", 10_000), onUnknown: "safe" }, async (tx) => {
      tx.set(key("durable"), Buffer.from("kept"));
    });
    expect(stamp).toHaveLength(10);
    await control.kill();
    const waiting = store.read(once("durable", 60_000), (reader) => reader.get(key("durable")));
    await control.restart();
    expect(Buffer.from((await waiting) ?? []).toString()).toBe("kept");
  }, 120_000);

  test("no commit in flight is cancelled by a collection of garbage", async () => {
    const program = `
      const { openFoundationdb } = await import(${JSON.stringify(driver)});
      const store = await openFoundationdb({ clusterFile: ${JSON.stringify(server.clusterFile)} });
      const options = { label: "collected", deadlineMs: 30_000, onUnknown: "unsafe", maxAttempts: 1 };
      const collecting = setInterval(gc, 1);
      const commits = Array.from({ length: 300 }, (_, i) =>
        store.transact(options, async (tx) => tx.set(Buffer.from([2, 8, i >> 8, i & 255]), Buffer.alloc(2_000))));
      await Promise.all(commits);
      clearInterval(collecting);
      await store.close({ drainMs: 1_000 });
      console.log("committed");
    `;
    const { stdout } = await run(
      process.execPath,
      ["--expose-gc", "--input-type=module", "--eval", program],
      {
        timeout: 60_000,
      },
    );
    expect(stdout.trim()).toBe("committed");
  }, 90_000);

  test("a process that closes its store exits even when it waited for a change", async () => {
    const program = `
      const { openFoundationdb } = await import(${JSON.stringify(driver)});
      const store = await openFoundationdb({ clusterFile: ${JSON.stringify(server.clusterFile)} });
      const signal = new AbortController().signal;
      const waits = Array.from({ length: 50 }, () =>
        store.changed(Buffer.from([2, 9]), undefined, { signal, pollMs: 60_000 }));
      await store.health({ timeoutMs: 5_000 }); // the watches were requested before it
      await store.close({ drainMs: 0 });
      await Promise.all(waits);
      console.log("closed");
    `;
    const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", program], {
      timeout: 20_000,
    });
    expect(stdout.trim()).toBe("closed");
  });
});

test.skipIf(missing === undefined)("skipped without FoundationDB, with a reason of one line", () => {
  expect(missing).toMatch(/^[^\n]+$/);
});
