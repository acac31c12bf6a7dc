/**
 * Any damage to any row of a task: one changed byte or bit, or a missing row. Either the scrub finds it, or it has no effect: every query
 * of the task has the same answer as before.
 */
import fc from "fast-check";
import tuple from "fdb-tuple";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import type { KeyValue, Store } from "../../../../shared/store/store.ts";
import { acknowledge, offer } from "../../../harness/records/handoffs.ts";
import {
  create,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { dump, storeOf } from "../../../harness/records/rows.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const TASK = "task-1";
const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
/** Text that zstd compresses by a fifth only, so that it needs chunks. */
const noise = (chars: number) =>
  Array.from({ length: chars }, () => String.fromCharCode(33 + Math.random() * 90)).join("");

/** Two chunks, and no more: the time of the test is that of reading this text thousands of times. */
const LARGE_CHARS = 80_000;

let bench: TestRecords;
let rows: KeyValue[];
let all: KeyValue[];
let sound: string;

/** The subspaces of a task's rows. The scrub verifies every row in them. */
const SUBSPACES = [
  "checkpoints",
  "versions",
  "chunks",
  "ids",
  "order",
  "tasks",
  "children",
  "audit",
  "handoffs",
  "task_handoffs",
  "handoff_due",
  "idem",
];
const spaceOf = ({ key }: KeyValue): string | undefined => {
  const [, first, second] = tuple.unpack(Buffer.from(key)) as string[];
  const name = first === "s" && second === "handoff_due" ? second : first;
  return SUBSPACES.find((one) => one === name);
};

function repositoryOn(store: Store): CheckpointRepository {
  return new CheckpointRepository({ store, format: bench.format, finder: "test", now: () => 0 });
}

/** The answers to all queries about the task. */
async function answers(repository: CheckpointRepository): Promise<string> {
  const of = (query: Promise<unknown>): Promise<unknown> => query.catch((error: Error) => error.message);
  const history = await repository.history("default", { task_id: TASK, limit: 100, order: "oldest" });
  const versions = history.checkpoints.flatMap(({ metadata: { checkpoint_id: id, version } }) =>
    Array.from({ length: version }, (_, n) => of(repository.get("default", id, n + 1))),
  );
  return JSON.stringify([
    history,
    await Promise.all(versions),
    await of(repository.latest("default", TASK)),
    await of(repository.task("default", TASK)),
    await of(repository.audit("default", { task_id: TASK, from_seq: 1, limit: 500 })),
    await of(repository.handoffs("default", { task_id: TASK, limit: 100 })),
    await of(repository.handoffs("default", { limit: 100 })),
  ]);
}

beforeAll(async () => {
  bench = await openTestRecords("memory");
  const { repository } = bench;
  const first = await create(repository);
  const second = await create(repository, { checkpoint: input({ goal: "to do ".repeat(1_500) }) });
  const large = await create(repository, { checkpoint: input({ goal: noise(LARGE_CHARS) }) });
  const patch = (n: number) => ({ execution_state: { current_focus: `part ${n}` } });
  for (let n = 1; n <= 2; n += 1) {
    await send(repository, "update", { checkpoint_id: second.checkpoint_id, patch: patch(n) });
  }
  await send(repository, "update", { checkpoint_id: large.checkpoint_id, patch: patch(3) });
  await send(repository, "link", { parent_id: first.checkpoint_id, child_id: large.checkpoint_id });
  await finalize(repository, first.checkpoint_id);
  const passed = await create(repository, { checkpoint: input({ phase: "handoff" }) });
  const taken = await offer(repository, passed.checkpoint_id);
  await acknowledge(repository, taken, { agent: "taker" });
  await create(repository, { agent: "taker", fence: 1 });
  await create(repository, { agent: "taker", fence: 1, checkpoint: input({ phase: "handoff" }) });
  all = await dump(bench.store);
  rows = all.filter((row) => spaceOf(row) !== undefined);
  sound = await answers(repositoryOn(await storeOf(all)));
});
afterAll(() => bench.close());

/** Whether a scrub of the store finds a problem. */
async function isFound(store: Store): Promise<boolean> {
  const { pass } = await scrub(
    { store, repository: repositoryOn(store) },
    { quarantines: false, stepBytes: 50_000 },
  );
  return pass.findings > 0;
}

test("the task has rows of every kind, and the scrub finds nothing in it", async () => {
  expect(new Set(rows.map(spaceOf))).toEqual(new Set(SUBSPACES));
  // Three versions of the large checkpoint: as made, updated and linked.
  expect(rows.filter((row) => spaceOf(row) === "chunks")).toHaveLength(6);
  expect(await isFound(await storeOf(all))).toBe(false);
});

test("finds every missing row", async () => {
  const missed: string[] = [];
  for (const row of rows) {
    const store = await storeOf(all.filter((one) => one !== row));
    if (!(await isFound(store)))
      missed.push(
        Buffer.from(row.key)
          .toString("latin1")
          .replace(/[^ -~]/g, "."),
      );
    await store.close({ drainMs: 100 });
  }
  expect(missed).toEqual([]);
});

/** A row with content. The kind is chosen first, so that every kind is damaged often. */
const damaged = () => {
  const byKind = Map.groupBy(
    rows.filter(({ value }) => value.length > 0),
    spaceOf,
  );
  return fc
    .constantFrom(...byKind.keys())
    .chain((kind) => fc.constantFrom(...(byKind.get(kind) as KeyValue[])));
};

test("finds every changed byte that changes an answer", async () => {
  await fc.assert(
    fc.asyncProperty(
      damaged(),
      fc.oneof(
        fc.nat({ max: 24 }),
        fc.nat({ max: 24 }).map((n) => -1 - n),
        fc.nat(),
      ),
      fc.oneof(fc.constantFrom(1, 2, 4, 8, 16, 32, 64, 128), fc.integer({ min: 1, max: 255 })),
      async (row, at, mask) => {
        const value = Uint8Array.from(row.value);
        const place = ((at % value.length) + value.length) % value.length;
        value[place]! ^= mask;
        const store = await storeOf(all.map((one) => (one === row ? { key: row.key, value } : one)));
        if (!(await isFound(store))) expect(await answers(repositoryOn(store))).toBe(sound);
        await store.close({ drainMs: 100 });
      },
    ),
    { numRuns: 1_000, interruptAfterTimeLimit: 30_000, markInterruptAsFailure: false },
  );
}, 120_000);

test("finds every value of another row that changes an answer", async () => {
  const pairs = damaged().chain((row) =>
    fc.tuple(fc.constant(row), fc.constantFrom(...rows.filter((one) => spaceOf(one) === spaceOf(row)))),
  );
  await fc.assert(
    fc.asyncProperty(pairs, async ([row, { value }]) => {
      const store = await storeOf(all.map((one) => (one === row ? { key: row.key, value } : one)));
      if (!(await isFound(store))) expect(await answers(repositoryOn(store))).toBe(sound);
      await store.close({ drainMs: 100 });
    }),
    { numRuns: 500, interruptAfterTimeLimit: 20_000, markInterruptAsFailure: false },
  );
}, 120_000);

test("verifies the tasks of other tenants", async () => {
  const { repository, store } = bench;
  const made = await create(repository, { tenant: "clinic", task: "t" });
  await store.transact(options, async (tx) =>
    tx.clear(tenantKeys("clinic").checkpoint("t", made.checkpoint_id)),
  );
  expect((await scrub(bench, { quarantines: false })).pass.findings).toBe(1);
  expect((await repository.scrubFindings("default", { limit: 10 })).findings).toEqual([]);
  expect((await repository.scrubFindings("clinic", { limit: 10 })).findings).toMatchObject([
    { task_id: "t", kind: "checkpoint", checkpoint_id: made.checkpoint_id },
  ]);
});
