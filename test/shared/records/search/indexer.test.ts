// The index and the feed: the index equals the content of the feed after cut, killed and repeated steps and
// after a rebuild.

import fc from "fast-check";
import tuple from "fdb-tuple";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { sha256Hex } from "../../../../shared/integrity/canonical.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { acquireLease, LeaseLost, requireLease } from "../../../../shared/records/leader/lease.ts";
import { positionOf } from "../../../../shared/records/outbox/feed.ts";
import { readIndexState } from "../../../../shared/records/search/index-state.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import { readPostings } from "../../../../shared/records/search/postings.ts";
import { wordsIn, wordsOf } from "../../../../shared/records/search/tokenizer.ts";
import type { KeyRange, Reader, Store } from "../../../../shared/store/store.ts";
import {
  create,
  ENGINES,
  input,
  OPERATOR,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { indexAll, search, searchAll, spec, write } from "./corpus.ts";

const reading = { label: "test", deadlineMs: 3_000 };
const writing = { ...reading, onUnknown: "safe" } as const;
const noGuard = async () => {};
const UUID_ZERO = "00000000-0000-7000-8000-000000000000";

async function rowsOf(reader: Reader, range: KeyRange): Promise<[string, string][]> {
  const { rows, more } = await reader.getRange(range, { limit: 10_000 });
  if (more) throw new Error("the test's range is too large");
  return rows.map(({ key, value }) => [Buffer.from(key).toString("hex"), Buffer.from(value).toString("hex")]);
}

/** The complete index of a tenant: entries byte by byte, postings regardless of their division into lists. */
function dump(store: Store, tenant = "default") {
  return store.read(reading, async (reader) => {
    const keys = tenantKeys(tenant);
    const { rows } = await reader.getRange(keys.words(), { limit: 10_000 });
    const words = new Set(rows.map(({ key }) => tuple.unpack(Buffer.from(key)).at(-2) as string));
    const postings = await Promise.all(
      [...words].map(async (word) => {
        const page = await readPostings(reader, keys, word, { before: null, lists: 1_000 });
        return page.postings.map(({ entry, id }) => `${word} ${entry} ${id}`);
      }),
    );
    return {
      entries: await rowsOf(reader, keys.indexes()),
      dropped: await rowsOf(reader, keys.droppedWords()),
      postings: postings.flat().sort(),
    };
  });
}

describe("words", () => {
  test("are runs of letters and digits, normalised, in lower case", () => {
    expect(wordsIn("Fix: the RE-try_loop (v2), ﬁle Größe नमस्ते x 日本")).toEqual([
      "fix",
      "the",
      "re",
      "try",
      "loop",
      "v2",
      "file",
      "größe",
      "नमस्ते",
      "日本",
    ]);
    expect(wordsIn(`${"a".repeat(64)} ${"b".repeat(65)}`)).toEqual(["a".repeat(64)]);
  });
});

describe.each(ENGINES)("the index on %s", (engine) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  test("a crash between steps repeats nothing and skips nothing", async () => {
    const { repository, store } = bench;
    const crash = async () => {
      throw new Error("killed");
    };
    for (const one of fc.sample(spec, { seed: 5, numRuns: 12 })) {
      await write(repository, one, {
        between: async () => {
          await expect(stepIndex(store, crash)).rejects.toThrow("killed");
          await stepIndex(store, noGuard);
        },
      });
    }
    const grown = await dump(store);
    expect(grown.dropped.length).toBeGreaterThan(0);
    await repository.rebuildIndex(OPERATOR);
    await indexAll(store);
    expect(await dump(store)).toEqual(grown);
  });

  test("two indexers at once do the work of one", async () => {
    const { repository, store } = bench;
    for (const one of fc.sample(spec, { seed: 6, numRuns: 10 })) {
      await write(repository, one, {
        between: () =>
          Promise.all([stepIndex(store, noGuard), stepIndex(store, noGuard), stepIndex(store, noGuard)]),
      });
    }
    await indexAll(store);
    const together = await dump(store);
    const { indexed, total } = await repository.indexStatus();
    expect([indexed, total]).toEqual([10, 10]);
    await repository.rebuildIndex(OPERATOR);
    await indexAll(store);
    expect(await dump(store)).toEqual(together);
  });

  test("a step that was overtaken writes nothing", async () => {
    const { repository, store } = bench;
    await create(repository);
    const held = Promise.withResolvers<void>();
    const overtaken = Promise.withResolvers<void>();
    const slow = stepIndex(store, async () => {
      held.resolve();
      await overtaken.promise;
    });
    await held.promise;
    await stepIndex(store, noGuard);
    const { position } = await create(repository);
    await stepIndex(store, noGuard);
    overtaken.resolve();
    expect(await slow).toMatchObject({ followed: 0, more: true });
    expect(await repository.indexStatus()).toMatchObject({ indexed_through: position, indexed: 2 });
  });

  test("an indexer that lost its lease writes nothing", async () => {
    const { store, repository } = bench;
    await create(repository);
    const take = (holder: string, nowMs: number) =>
      acquireLease(store, { job: "index", holder, nowMs, leaseMs: 1_000 });
    const old = await take("one", 0);
    await take("two", 5_000);
    await expect(stepIndex(store, (tx) => requireLease(tx, old!))).rejects.toBeInstanceOf(LeaseLost);
    expect(await searchAll(repository, {})).toEqual([]);
  });

  test("a rebuild clears the old entries of every tenant and continues after a crash", async () => {
    const { repository, store } = bench;
    const tenants = ["default", "a", "ab", "z"];
    for (const tenant of tenants) {
      for (const one of fc.sample(spec, { seed: 9, numRuns: 4 })) await write(repository, one, { tenant });
    }
    await indexAll(store);
    const before = await Promise.all(tenants.map((tenant) => dump(store, tenant)));
    // Entries without a feed entry, as a defect of an older release could have left them.
    const stray = tenantKeys("ab").index("agent", "agent-0", 1, UUID_ZERO);
    const strays = [
      stray,
      tenantKeys("z").dropped(UUID_ZERO),
      tenantKeys("a").posted(99),
      tenantKeys("z").word("old", 99),
    ];
    await store.transact(writing, async (tx) => {
      for (const key of strays) tx.set(key, Buffer.of(1, 0x90));
    });

    expect(await repository.rebuildIndex(OPERATOR)).toMatchObject({
      state: "rebuilding",
      indexed: 0,
      total: 16,
    });
    const stateNow = () => store.read(reading, readIndexState);
    while ((await stateNow()).clearing === "default") await stepIndex(store, noGuard);
    const halfway = await stateNow();
    await repository.rebuildIndex(OPERATOR); // a second request changes nothing
    expect(await stateNow()).toEqual(halfway);
    expect((await search(repository, {})).rebuilding).toBe(true);

    expect(await indexAll(store)).toBeGreaterThan(tenants.length);
    const left = await store.read(reading, (reader) => reader.getMany(strays));
    expect(left.filter((value) => value !== undefined)).toEqual([]);
    expect(await Promise.all(tenants.map((tenant) => dump(store, tenant)))).toEqual(before);
    expect(await repository.indexStatus()).toMatchObject({
      state: "ready",
      behind: 0,
      indexed: 16,
      total: 16,
    });
    expect((await search(repository, {})).rebuilding).toBe(false);
  });

  test("a cursor stays valid after a rebuild", async () => {
    const { repository, store } = bench;
    const ids: string[] = [];
    for (const one of fc.sample(spec, { seed: 10, numRuns: 20 })) {
      ids.push(
        await write(repository, { ...one, words: ["parser"] }, { between: () => stepIndex(store, noGuard) }),
      );
    }
    const between = async () => {
      await repository.rebuildIndex(OPERATOR);
      await indexAll(store);
    };
    for (const query of [{ text: "parser", limit: 6 }, { limit: 6 }]) {
      const found = await searchAll(repository, query, { between });
      expect(found.map(({ metadata }) => metadata.checkpoint_id).sort()).toEqual([...ids].sort());
    }
  });

  test("a step that would be too large is divided", async () => {
    const { repository, store } = bench;
    const rareWords = (n: number) =>
      Array.from({ length: LIMITS.index_words_max }, (_, i) =>
        `w${n}x${i}`.padEnd(LIMITS.index_word_chars_max, "ö"),
      );
    for (let n = 0; n < 60; n += 1)
      await create(repository, { checkpoint: input({ goal: rareWords(n).join(" ") }) });
    expect(await indexAll(store)).toBeGreaterThan(2);
    expect(await repository.indexStatus()).toMatchObject({ indexed: 60, behind: 0 });
    for (const n of [0, 31, 59])
      expect(await searchAll(repository, { text: rareWords(n)[7]!.slice(0, 64) })).toHaveLength(1);
  });

  test("a step that takes long is written in parts", async () => {
    const { repository, store } = bench;
    for (let n = 0; n < 20; n += 1) await create(repository);
    let nowMs = 0;
    const slow = () => (nowMs += 600);
    const step = await stepIndex(store, noGuard, slow);
    expect(step).toMatchObject({ more: true });
    expect(step.followed).toBeGreaterThan(0);
    expect(step.followed).toBeLessThan(20);
    expect(await repository.indexStatus()).toMatchObject({ indexed: step.followed });
    // With each part some are done, however slow the machine is.
    while ((await stepIndex(store, noGuard, slow)).more);
    expect(await repository.indexStatus()).toMatchObject({ indexed: 20, behind: 0 });
  });

  test("dropped words are tracked up to a limit, and no hit appears twice", async () => {
    const { repository, store } = bench;
    // Digests, because they cannot be compressed.
    const words = (n: number) => Array.from({ length: 190 }, (_, i) => sha256Hex(`${n}/${i}`));
    const text = (n: number) => ["steady", ...words(n % 16)].join(" ");
    const { checkpoint_id: id } = await create(repository, { checkpoint: input({ goal: text(0) }) });
    for (let n = 1; n < 24; n += 1) {
      await send(repository, "update", { checkpoint_id: id, patch: { execution_state: { goal: text(n) } } });
      await indexAll(store);
    }
    expect(await searchAll(repository, { text: "steady" })).toHaveLength(1);
    expect((await searchAll(repository, { text: words(3)[5]! })).length).toBeLessThanOrEqual(1);
    expect(wordsOf(await repository.get("default", id)).length).toBeGreaterThan(190);
  });

  test("indexed_through is the position of the last indexed commit", async () => {
    const { repository, store } = bench;
    expect((await repository.indexStatus()).indexed_through).toBe(positionOf(null));
    const first = await create(repository);
    await indexAll(store);
    const second = await create(repository);
    expect(await repository.indexStatus()).toMatchObject({
      indexed_through: first.position,
      behind: 1,
      indexed: 1,
    });
    await indexAll(store);
    expect((await search(repository, {})).indexed_through).toBe(second.position);
  });

  test("a search waits for the given position", async () => {
    const { repository, store } = bench;
    const { position, checkpoint_id: id } = await create(repository);
    const waiting = search(repository, { wait_for: position });
    await indexAll(store);
    expect((await waiting).checkpoints.map(({ metadata }) => metadata.checkpoint_id)).toEqual([id]);

    const next = await create(repository);
    await expect(search(repository, { wait_for: next.position })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      details: { indexed_through: position },
    });
  });
});
