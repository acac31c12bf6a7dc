/** The chain of the access log: what is appended, listed and pruned, and the scrub that finds damage in it. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { entryHash } from "../../../../shared/integrity/chain.ts";
import type { AccessEntry } from "../../../../shared/protocol/access-log.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { AccessBatch } from "../../../../shared/records/access-log/append.ts";
import { decode, decodeChecked, encode, encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { familyOf } from "../../../harness/records/edits.ts";
import { ENGINES, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { dump } from "../../../harness/records/rows.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const keys = tenantKeys("default");
const options = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
const DAY_MS = 86_400_000;
const DAYS = 30;
const POLICIES = { defaults: {}, access_log_days: DAYS, tenants: { brief: { access_log_days: 1 } } };

let bench: TestRecords;
let nowMs: number;

const entry = (facts: Partial<AccessEntry> = {}): AccessEntry => ({
  at: new Date(nowMs).toISOString(),
  actor: { id: "agent-1", type: "agent" },
  op: "query.get",
  outcome: "ok",
  task_id: "task-1",
  ...facts,
});
const batch = (n: number, entries: readonly AccessEntry[], more: Partial<AccessBatch> = {}): AccessBatch => ({
  ...{ session: "s1", n, state: "open", entries, lost: 0 },
  ...more,
});
const append = (one: AccessBatch, tenant = "default") => bench.repository.accessLogs.append(tenant, one);
const list = (query: object = {}, tenant = "default") =>
  bench.repository.accessLogs.list(tenant, { denied: false, limit: 100, ...query });
const blocks = (from_seq = 1, limit = 100) =>
  bench.repository.accessLogs.blocks("default", { from_seq, limit });
const prune = () => bench.repository.accessLogs.prune("default", async () => {});
const write = (key: Bytes, value: Bytes | undefined) =>
  bench.store.transact(options, async (tx) => {
    if (value === undefined) tx.clear(key);
    else tx.set(key, value);
  });
const read = async (key: Bytes) => (await bench.store.read(options, (reader) => reader.get(key)))!;
const found = async () => {
  const { findings } = await scrub(bench, { stepBytes: 2_000 });
  return findings.filter(({ kind }) => kind === "access_log").map(({ details }) => details);
};

describe.each(ENGINES)("the access log on %s", (engine) => {
  beforeEach(async () => {
    nowMs = Date.now();
    bench = await openTestRecords(engine, () => nowMs, POLICIES);
  });
  afterEach(() => bench.close());

  test("entries are listed newest first, by task, actor, time and outcome, in pages", async () => {
    await append(batch(1, [entry(), entry({ task_id: "task-2" })]));
    nowMs += 1_000;
    const from = new Date(nowMs).toISOString();
    const denied = entry({
      actor: { id: "human=ada", type: "human" },
      outcome: "denied",
      reason: "FORBIDDEN",
    });
    await append(batch(2, [entry({ task_ids: ["task-2", "task-3"], items: 2 }), denied]));
    const tasks = async (query: object) =>
      (await list(query)).entries.map(({ block, task_id, task_ids }) => [block, task_ids ?? task_id]);
    const all = [
      [2, "task-1"],
      [2, ["task-2", "task-3"]],
      [1, "task-2"],
      [1, "task-1"],
    ];
    expect(await tasks({})).toEqual(all);
    expect(await tasks({ task_id: "task-2" })).toEqual([all[1], all[2]]);
    expect(await tasks({ actor: "human=ada" })).toEqual([all[0]]);
    expect(await tasks({ denied: true })).toEqual([all[0]]);
    expect(await tasks({ from })).toEqual([all[0], all[1]]);
    expect(await tasks({ to: new Date(nowMs - 500).toISOString() })).toEqual([all[2], all[3]]);
    const paged: unknown[] = [];
    for (let cursor: string | undefined, pages = 0; pages < 4; pages += 1) {
      const page = await list({ limit: 1, ...(cursor !== undefined && { cursor }) });
      paged.push(...page.entries.map(({ block, task_id, task_ids }) => [block, task_ids ?? task_id]));
      cursor = page.cursor;
    }
    expect(paged).toEqual(all);
    expect(await list()).toMatchObject({ mode: "batched", days: DAYS });
  });

  test("a repeated batch has no effect, and one that is too large for a block has several", async () => {
    await append(batch(1, [entry()]));
    await append(batch(1, [entry()]));
    const id = "x".repeat(64);
    const large = Array.from({ length: 500 }, () => entry({ task_ids: [id, id, id, id] }));
    await append(batch(2, large));
    const { entries, head } = await blocks();
    expect(head?.seq).toBeGreaterThan(3);
    expect(entries.map(({ seq }) => seq)).toEqual(entries.map((_, i) => i + 1));
    for (const { entry: text } of entries) expect(text.length).toBeLessThan(LIMITS.inline_bytes_max);
    expect((await list({ limit: 500 })).entries).toHaveLength(500);
    expect(await found()).toEqual([]);
  });

  test("processes that write at the same time make one chain, and tenants have chains of their own", async () => {
    const writers = Array.from({ length: 8 }, async (_, i) => {
      for (let n = 1; n <= 5; n += 1) await append(batch(n, [entry()], { session: `s${i}` }));
    });
    await Promise.all([...writers, append(batch(1, [entry({ task_id: "other" })]), "quokka")]);
    const page = await blocks();
    expect(page.head?.seq).toBe(40);
    expect(page.sessions).toHaveLength(8);
    expect((await list({}, "quokka")).entries).toMatchObject([{ task_id: "other", block: 1 }]);
    expect((await list({ task_id: "other" })).entries).toEqual([]);
    expect(await found()).toEqual([]);
  });

  const MANY = 40;
  const edited = (text: string) => text.replace("agent-1", "agent-2");
  test.each<[damage: string, details: string[], edit: () => Promise<unknown>]>([
    [
      "an edited block",
      ["block 21: it does not contain the hash of the entry before it"],
      async () =>
        write(keys.accessBlock(20), encode(edited(decode<string>(await read(keys.accessBlock(20)))))),
    ],
    [
      "a removed block",
      [
        "block 21: an entry before it is missing",
        "block 21: it does not contain the hash of the entry before it",
      ],
      () => write(keys.accessBlock(20), undefined),
    ],
    [
      "an added block",
      ["the record of the chain is older than the newest block"],
      async () => {
        const { prev: _, ...last } = JSON.parse(
          decode<string>(await read(keys.accessBlock(MANY))),
        ) as object & {
          prev: string;
        };
        const prev = entryHash(decode<string>(await read(keys.accessBlock(MANY))));
        return write(keys.accessBlock(MANY + 1), encode(canonicalText({ ...last, prev, seq: MANY + 1 })));
      },
    ],
    [
      "a removed newest block",
      [`block ${MANY}: the chain does not end in its head`],
      () => write(keys.accessBlock(MANY), undefined),
    ],
    ["a lost record", ["the record of the chain is lost"], () => write(keys.accessChain(), undefined)],
    [
      "a damaged record",
      ["the record of the chain cannot be read"],
      () => write(keys.accessChain(), encode("x")),
    ],
    [
      "a beginning that was cut off",
      ["the first blocks are gone, and no block states that retention has removed them"],
      async () => {
        const chain = decodeChecked<object>(await read(keys.accessChain()));
        const hash = entryHash(decode<string>(await read(keys.accessBlock(1))));
        await write(keys.accessBlock(1), undefined);
        await write(keys.accessChain(), encodeChecked({ ...chain, start: { seq: 1, hash } }));
      },
    ],
  ])("the scrub finds %s", async (_damage, details, edit) => {
    for (let n = 1; n <= MANY; n += 1) await append(batch(n, [entry()]));
    expect(await found()).toEqual([]);
    await edit();
    expect((await found()).sort()).toEqual(details);
  });

  test("an end that was cut off with the record of the chain is found by what the chain of the tenant states", async () => {
    await append(batch(1, [entry()]));
    const before = await read(keys.accessChain());
    nowMs += LIMITS.access_log_statement_ms;
    await append(batch(2, [entry()]));
    const { entries } = await bench.repository.tenantActs.page("default", { from_seq: 1, limit: 10 });
    const act = JSON.parse(entries.at(-1)!.entry) as object;
    expect(act).toMatchObject({ action: "access_log", subject: { block: 2 } });
    await write(keys.accessChain(), before);
    await write(keys.accessBlock(2), undefined);
    expect(await found()).toEqual(["block 2 is not the one that the chain of the tenant states"]);
  });

  test("an entry is refused while the record of the chain is behind its blocks", async () => {
    await append(batch(1, [entry()]));
    const chain = await read(keys.accessChain());
    await append(batch(2, [entry()]));
    await write(keys.accessChain(), chain);
    await expect(append(batch(3, [entry()]))).rejects.toMatchObject({ code: "CORRUPT" });
  });

  test("retention removes the oldest blocks once a day, and a block states it", async () => {
    for (let n = 1; n <= 3; n += 1) await append(batch(n, [entry()]));
    nowMs += DAY_MS;
    await append(batch(4, [entry()]));
    const fourth = (await blocks()).entries[3]!;
    nowMs += DAYS * DAY_MS - 1_000;
    await append(batch(5, [entry({ task_id: "kept" })], { state: "closed" }));
    expect(await prune()).toMatchObject({ blocks: 0 });
    nowMs += 2_000;
    expect(await prune()).toEqual({ blocks: 4, entries: 4, more: false, sessions: null });
    const indexed = (await dump(bench.store)).filter((row) => familyOf(row) === "access_tasks");
    expect(indexed).toHaveLength(1);
    const { start, entries } = await blocks();
    expect(start).toEqual({ seq: 4, hash: fourth.hash });
    expect(entries.map(({ seq }) => seq)).toEqual([5, 6]);
    expect(JSON.parse(entries[1]!.entry)).toMatchObject({
      pruned: { seq: 4, hash: fourth.hash, entries: 4 },
    });
    expect(await prune()).toMatchObject({ blocks: 0 });
    expect((await list()).entries).toMatchObject([{ task_id: "kept", block: 5 }]);
    expect(await found()).toEqual([]);
  });

  test("a session that ended in good order is forgotten after a day, and one that did not stays", async () => {
    await append(batch(1, [entry()], { state: "closed" }));
    await append(batch(1, [entry()], { session: "killed" }));
    nowMs += DAY_MS + 1_000;
    await prune();
    expect((await blocks()).sessions).toMatchObject([{ session: "killed", state: "open", seq: 2 }]);
  });

  test("a session that has lost entries is named for seven days, also when its blocks are removed before", async () => {
    const [usual, brief] = ["default", "brief"];
    for (const of of [usual, brief]) {
      await append(batch(1, [entry()], { session: "lost", lost: 3 }), of);
      await append(batch(2, [entry()], { session: "lost", state: "closed" }), of);
      await append(batch(1, [entry()], { session: "killed" }), of);
    }
    const known = async (of: string) => {
      const { accessLogs } = bench.repository;
      await accessLogs.prune(of, async () => {});
      const { start, sessions } = await accessLogs.blocks(of, { from_seq: 1, limit: 100 });
      return [start?.seq ?? 0, ...sessions.map(({ session }) => session).sort()];
    };
    nowMs += 6 * DAY_MS;
    // The newest block stays.
    for (const of of [usual, brief]) await append(batch(1, [entry()], { session: "new" }), of);
    expect(await known(usual)).toEqual([0, "killed", "lost", "new"]);
    expect(await known(brief)).toEqual([3, "killed", "lost", "new"]);
    nowMs += DAY_MS + 1_000;
    expect(await known(usual)).toEqual([0, "killed", "new"]);
    expect(await known(brief)).toEqual([3, "new"]);
  });

  test("sessions that ended are forgotten also behind many that did not", async () => {
    for (let i = 0; i < 120; i += 1) await append(batch(1, [entry()], { session: `a-${i}` }));
    await append(batch(1, [entry()], { session: "z", state: "closed" }));
    nowMs += DAY_MS + 1_000;
    const first = await prune();
    expect(first).toMatchObject({ more: true, blocks: 0 });
    const second = await bench.repository.accessLogs.prune("default", async () => {}, first.sessions);
    expect(second).toMatchObject({ more: false, sessions: null });
    const { sessions } = await blocks();
    expect(sessions.map(({ session }) => session)).not.toContain("z");
    expect(sessions).toHaveLength(120);
  });

  /** More blocks than one list reads. */
  const OTHERS = LIMITS.access_log_scan_count_max + 20;

  test("the list of a task reads its blocks alone", async () => {
    await append(batch(1, [entry({ task_id: "rare" })]));
    for (let n = 2; n <= OTHERS; n += 1) await append(batch(n, [entry()]));
    await append(batch(OTHERS + 1, [entry(), entry({ task_ids: ["rare", "other"], items: 2 })]));
    const page = await list({ task_id: "rare" });
    expect(page.cursor).toBeUndefined();
    expect(page.entries.map(({ block }) => block)).toEqual([OTHERS + 1, 1]);
    // A task that cannot be named is in no list, and does not stop the log.
    await append(batch(OTHERS + 2, [entry({ outcome: "denied", task_id: "" })]));
    expect((await list({ limit: 1 })).entries).toMatchObject([{ task_id: "" }]);
  });

  test("blocks of an earlier version are not in the index, and are listed after the others", async () => {
    for (let n = 1; n <= OTHERS; n += 1) await append(batch(n, [entry({ task_id: n === 5 ? "rare" : "t" })]));
    const { indexed: _, ...chain } = decodeChecked<{ indexed: number }>(await read(keys.accessChain()));
    await write(keys.accessChain(), encodeChecked(chain));
    for (const row of await dump(bench.store))
      if (familyOf(row) === "access_tasks") await write(row.key, undefined);
    expect((await list({ task_id: "rare" })).cursor).toBeDefined();
    await append(batch(OTHERS + 1, [entry({ task_id: "rare" })]));
    const listed: number[] = [];
    for (let cursor: string | undefined, pages = 0; pages < 4; pages += 1) {
      const page = await list({ task_id: "rare", limit: 1, ...(cursor !== undefined && { cursor }) });
      listed.push(...page.entries.map(({ block }) => block));
      cursor = page.cursor;
      if (cursor === undefined) break;
    }
    expect(listed).toEqual([OTHERS + 1, 5]);
    expect(await found()).toEqual([]);
  });

  test("the scrub finds a block that the index of a task lacks", async () => {
    for (let n = 1; n <= MANY; n += 1) await append(batch(n, [entry()]));
    await write(keys.accessTask("task-1", 30), undefined);
    expect(await found()).toEqual(["block 30: the index of tasks lacks it for 1 of them"]);
  });
});
