// Unknown commit results on a real server. The client library fails on purpose: it drops commits, and it
// hides the results of commits that it has made or makes up to five seconds later. The outcome that the store
// reports must be true in each case, and a command of the repository must take effect once. A separate process,
// because the library accepts these settings once per process.
import { setTimeout as pause } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openFormat } from "../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../shared/records/repository.ts";
import { openFoundationdb } from "../../shared/store/drivers/foundationdb.ts";
import { type Store, StoreError, type Tx } from "../../shared/store/store.ts";
import { create, input } from "../harness/records/records.ts";
import {
  type FoundationdbServer,
  missingFoundationdb,
  startFoundationdb,
} from "../harness/stores/foundationdb.ts";
import { COMMIT_SETTLED_MS, injectFailures } from "../harness/stores/foundationdb-buggify.ts";
import { i64Of, type Space, testSpace, text } from "./store/space.ts";

const PERCENT = 10;
const COMMANDS = 200;
const DEADLINE_MS = 60_000;
const ids = Array.from({ length: COMMANDS }, (_, id) => id);
const safe = { label: "command", deadlineMs: DEADLINE_MS, onUnknown: "safe" } as const;
const unsafe = { ...safe, onUnknown: "unsafe", maxAttempts: 1 } as const;

const missing = await missingFoundationdb();

describe.skipIf(missing !== undefined)("foundationdb with client buggify", () => {
  let server: FoundationdbServer;
  let store: Store;

  beforeAll(async () => {
    await injectFailures(PERCENT);
    server = await startFoundationdb();
    store = await openFoundationdb({ clusterFile: server.clusterFile });
  });

  afterAll(async () => {
    await store?.close({ drainMs: 1_000 });
    await server?.stop();
  });

  const isStored = (space: Space, id: number) =>
    store.read(safe, async (reader) => (await reader.get(space.key(String(id)))) !== undefined);

  it("reports no commit with more certainty than it has", async () => {
    const space = testSpace();
    const outcomes = await Promise.all(
      ids.map(async (id) => {
        const failure = await store
          .transact(unsafe, async (tx) => tx.set(space.key(String(id)), text("x")))
          .then(
            () => undefined,
            (error: unknown) => error,
          );
        if (failure !== undefined && !(failure instanceof StoreError)) throw failure;
        return { committed: failure?.committed, kind: failure?.kind, atOnce: await isStored(space, id) };
      }),
    );
    await pause(COMMIT_SETTLED_MS);
    const seen = new Set<string>();
    for (const [id, { committed, kind, atOnce }] of outcomes.entries()) {
      const atLast = await isStored(space, id);
      seen.add(`${committed ?? "committed"}: ${atLast ? "there" : "absent"}`);
      if (committed === undefined) expect([atOnce, atLast]).toEqual([true, true]);
      else if (committed === "no") expect([atOnce, atLast]).toEqual([false, false]);
      else expect(kind).toBe("commit_unknown");
      if (committed === "maybe_settled") expect(atLast).toBe(atOnce);
    }
    // A commit that timed out may be there later or not. All other outcomes have occurred, so every branch
    // above was tested.
    const inFlight = [...seen].filter((one) => one.startsWith("maybe_in_flight"));
    expect(inFlight).not.toEqual([]);
    const certain = [...seen].filter((one) => !inFlight.includes(one));
    expect(certain.sort()).toEqual([
      "committed: there",
      "maybe_settled: absent",
      "maybe_settled: there",
      "no: absent",
    ]);
  }, 120_000);

  it("applies each command once, even when it is delivered twice at the same time and late commits land", async () => {
    const space = testSpace();
    const apply = (id: number) =>
      store.transact(safe, async (tx: Tx) => {
        const record = space.key(`idem/${id}`);
        if ((await tx.get(record)) !== undefined) return;
        tx.set(record, text("done"));
        tx.addI64(space.key("count"), 1n);
        tx.setStampedKey(space.key("feed/"), text(String(id)), text(String(id)));
      });
    const effects = () =>
      store.read(safe, async (reader) => {
        const feed = await reader.getRange(space.range("feed/", "feed0"), { limit: 1_000 });
        return { count: i64Of(await reader.get(space.key("count"))), entries: feed.rows.length };
      });
    const results = await Promise.all([...ids, ...ids].map(apply));
    expect(results.reduce((sum, { attempts }) => sum + attempts, 0)).toBeGreaterThan(2 * COMMANDS);
    const once = { count: BigInt(COMMANDS), entries: COMMANDS };
    expect(await effects()).toEqual(once);
    await pause(COMMIT_SETTLED_MS);
    expect(await effects()).toEqual(once);
  }, 120_000);

  it("gives all copies of a repository's command the same answer, and one checkpoint", async () => {
    const format = await openFormat(store);
    const repository = new CheckpointRepository({ store, format, finder: "test", now: Date.now });
    const tasks = Array.from({ length: 10 }, (_, n) => `unknown-${n}`);
    const commands = tasks.flatMap((task) =>
      Array.from({ length: 8 }, () => ({ task, commandId: uuidv7() })),
    );
    const send = async (command: { task: string; commandId: string }) => {
      // A client repeats its request until it gets an answer; the repository gives up at its own, shorter
      // deadline.
      for (;;) {
        try {
          return await create(repository, { ...command, checkpoint: input() });
        } catch (error) {
          if ((error as { code?: string }).code !== "UNAVAILABLE") throw error;
        }
      }
    };
    const answers = await Promise.all(
      commands.map(async (one) => Promise.all([send(one), send(one), send(one)])),
    );
    await pause(COMMIT_SETTLED_MS);
    for (const copies of answers) {
      const [first, ...rest] = copies.map(({ replayed: _, ...answer }) => answer);
      for (const other of rest) expect(other).toEqual(first);
    }
    for (const task of tasks) {
      const { entries } = await repository.audit("default", { task_id: task, from_seq: 1, limit: 500 });
      expect(entries).toHaveLength(8);
      const seqs = answers
        .flat()
        .filter((answer) => answer.task_id === task)
        .map(({ seq }) => seq);
      expect([...new Set(seqs)].sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    }
  }, 120_000);
});
