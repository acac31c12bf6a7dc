// Many writers on one task: in one process, over several repositories, and in several processes over one
// store. Every writer succeeds, no write is lost, and the results of all calls are consistent with the one
// order of the store.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, describe, expect, test } from "vitest";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { TaskMutexes } from "../../../shared/records/task/task-mutex.ts";
import { openStore } from "../../../shared/store/open.ts";
import { create, ENGINES, openTestRecords, send } from "../../harness/records/records.ts";
import { type Call, contradictions } from "../../harness/stores/linearizability.ts";
import { type Calls, contend } from "./contention.ts";

const PROGRAM = new URL("./writers.program.ts", import.meta.url).pathname;
const TASK = "hot";
const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const upTo = (count: number, first = 1): number[] => Array.from({ length: count }, (_, i) => first + i);

/** Requires that the recorded calls are consistent with each other and with the content of the store. */
async function requireConsistency(
  repository: CheckpointRepository,
  { shared, all, writes }: { shared: string; all: readonly Calls[]; writes: number },
): Promise<void> {
  const seqs = all.flatMap((calls) => calls.seqs);
  const versions = all.flatMap((calls) => calls.versions);
  const written = (calls: Call[]) => calls.flatMap(({ kind, place }) => (kind === "write" ? [place] : []));
  const sorted = (places: (number | null)[]) => places.sort((a, b) => (a ?? 0) - (b ?? 0));
  // The shared checkpoint existed before: it is the first checkpoint of the task, in its first version.
  expect(sorted(written(seqs))).toEqual(upTo(writes, 2));
  expect(sorted(written(versions))).toEqual(upTo(writes, 2));
  const initial: Call = { kind: "write", place: 1, invoked: 0, returned: 0, by: "before" };
  expect(contradictions([initial, ...seqs])).toEqual([]);
  expect(contradictions([initial, ...versions])).toEqual([]);
  const { execution_state, metadata } = await repository.get("default", shared);
  expect(metadata.version).toBe(writes + 1);
  // No update was lost: the item of each writer and round is present once.
  const items = (execution_state.completed_items as { title: string }[]).map(({ title }) => title);
  expect(new Set(items).size).toBe(items.length);
  expect(items).toHaveLength(writes + 1);
  expect(await repository.task("default", TASK)).toMatchObject({
    seq: writes + 1,
    audit_seq: 2 * writes + 1,
  });
}

describe.each(ENGINES)("many writers on %s", (engine) => {
  test("all commands on one task over four repositories succeed, and their order is linearizable", async () => {
    const bench = await openTestRecords(engine);
    cleanups.push(() => bench.close());
    const { checkpoint_id: shared } = await create(bench.repository, { task: TASK });
    const { store, format } = bench;
    const repositories = upTo(4).map(
      (n) => new CheckpointRepository({ store, format, finder: `repository-${n}`, now: Date.now }),
    );
    const calls = await contend(repositories, { name: "w", task: TASK, shared, writers: 24, rounds: 3 });
    await requireConsistency(bench.repository, { shared, all: [calls], writes: 72 });
    expect(calls.conflicts).toBeGreaterThan(0);
  }, 60_000);

  test("commands on one task are served in order of arrival, so that no caller starves", async () => {
    const bench = await openTestRecords(engine);
    cleanups.push(() => bench.close());
    const answers = await Promise.all(
      upTo(64).map((n) => create(bench.repository, { task: TASK, agent: `agent-${n}` })),
    );
    expect(answers.map(({ seq }) => seq)).toEqual(upTo(64));
  }, 60_000);

  test("exactly one of many updates with the same expected version succeeds", async () => {
    const bench = await openTestRecords(engine);
    cleanups.push(() => bench.close());
    const { checkpoint_id: id } = await create(bench.repository, { task: TASK });
    for (let version = 1; version <= 5; version += 1) {
      const results = await Promise.allSettled(
        upTo(32).map((n) => {
          const patch = { execution_state: { goal: `${n}` } };
          const body = { checkpoint_id: id, expected_version: version, patch };
          return send(bench.repository, "update", body, { task: TASK, agent: `agent-${n}` });
        }),
      );
      const reasons = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
      expect(reasons).toHaveLength(31);
      for (const reason of reasons) expect(reason).toMatchObject({ code: "CONFLICT" });
      const winner = results.findIndex(({ status }) => status === "fulfilled") + 1;
      expect((await bench.repository.get("default", id)).execution_state.goal).toBe(`${winner}`);
    }
  }, 60_000);
});

test("writers in several processes over one store lose no write and agree on one order", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-writers-"));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  const url = `lmdb:${folder}/store?shared`;
  const store = await openStore(url);
  cleanups.push(() => store.close({ drainMs: 5_000 }));
  const format = await openFormat(store);
  const repository = new CheckpointRepository({ store, format, finder: "test", now: Date.now });
  const { checkpoint_id: shared } = await create(repository, { task: TASK });
  const [processes, writers, rounds] = [3, 8, 3];
  const children = upTo(processes).map((n) => {
    const child = spawn(process.execPath, [PROGRAM, url, `p${n}`, String(writers), String(rounds)], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    cleanups.push(() => child.kill("SIGKILL"));
    return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
  });
  for (const { lines } of children) expect((await lines.next()).value).toBe("ready");
  for (const { child } of children) child.stdin.write(`${JSON.stringify({ task: TASK, shared })}\n`);
  const all = await Promise.all(
    children.map(async ({ child, lines }) => {
      const ended = once(child, "exit");
      const calls = JSON.parse((await lines.next()).value as string) as Calls;
      expect((await ended)[0]).toBe(0);
      return calls;
    }),
  );
  await requireConsistency(repository, { shared, all, writes: processes * writers * rounds });
}, 120_000);

describe("the task mutex", () => {
  test("runs the work of a task one at a time, in order of arrival, and other tasks in parallel", async () => {
    const mutex = new TaskMutexes();
    const order: number[] = [];
    let inside = 0;
    const gate = Promise.withResolvers<void>();
    const work = (n: number) => async () => {
      inside += 1;
      expect(inside).toBe(1);
      if (n === 0) await gate.promise;
      order.push(n);
      inside -= 1;
    };
    const all = upTo(20, 0).map((n) => mutex.run("a", 10_000, work(n)));
    expect(await mutex.run("b", 1, async () => "in parallel")).toBe("in parallel");
    gate.resolve();
    await Promise.all(all);
    expect(order).toEqual(upTo(20, 0));
  });

  test("reports that the store does not answer when the work that is first does not end in time", async () => {
    const mutex = new TaskMutexes();
    const gate = Promise.withResolvers<void>();
    const first = mutex.run("a", 10_000, () => gate.promise);
    const waiting = mutex.run("a", 5, async () => "never");
    await expect(waiting).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: "the store did not answer the earlier commands on this task in time",
    });
    gate.resolve();
    await first;
  });

  test("refuses work that waits too long without starting it, and continues with the others", async () => {
    const mutex = new TaskMutexes();
    const gate = Promise.withResolvers<void>();
    const quick = mutex.run("a", 10_000, async () => {});
    const first = mutex.run("a", 10_000, () => gate.promise);
    let done = false;
    const expiring = mutex.run("a", 5, async () => {
      done = true;
    });
    const waiting = mutex.run("a", 10_000, async () => "done");
    await expect(expiring).rejects.toMatchObject({ code: "UNAVAILABLE", retryAfterMs: expect.any(Number) });
    gate.resolve();
    await Promise.all([quick, first]);
    expect(await waiting).toBe("done");
    expect(done).toBe(false);
  });

  test("continues with the next work after a failure", async () => {
    const mutex = new TaskMutexes();
    const failing = mutex.run("a", 1_000, () => Promise.reject(new Error("on purpose")));
    const next = mutex.run("a", 1_000, async () => "next");
    await expect(failing).rejects.toThrow("on purpose");
    expect(await next).toBe("next");
  });
});

describe("the linearizability check", () => {
  const call = (kind: Call["kind"], place: number | null, invoked: number, returned: number): Call => ({
    kind,
    place,
    invoked,
    returned,
    by: "x",
  });
  const sound = [
    call("read", null, 0, 4),
    call("write", 1, 1, 5),
    call("write", 2, 2, 9),
    call("read", 1, 3, 8),
    call("read", 2, 6, 7),
    call("read", 2, 10, 11),
  ];
  test("accepts overlapping calls", () => expect(contradictions(sound)).toEqual([]));
  test.each([
    ["a stale read", call("read", 1, 12, 13)],
    ["a read from the future", call("read", 3, 12, 13)],
    ["a read that is older than an earlier read", call("read", 1, 7.5, 8.5)],
    ["a write ordered before one that it followed", call("write", 1.5, 12, 13)],
    ["a write twice", call("write", 2, 3, 9)],
    ["an empty read after a write", call("read", null, 6, 7)],
  ])("detects %s", (_, wrong) => expect(contradictions([...sound, wrong])).not.toEqual([]));
});
