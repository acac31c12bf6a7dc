// Search compared with brute force, its pages during concurrent writes, and its refusals.

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Checkpoint } from "../../../../shared/protocol/checkpoint.ts";
import { ENGINES, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import {
  FILTERS,
  indexAll,
  isWanted,
  type Query,
  type Spec,
  search,
  searchAll,
  spec,
  write,
} from "./corpus.ts";

const NAMES = Object.keys(FILTERS);
const SINGLES = NAMES.map((name) => [name]);
const PAIRS = NAMES.flatMap((one, i) => NAMES.slice(i + 1).map((other) => [one, other]));
const idsOf = (checkpoints: readonly Checkpoint[]) =>
  checkpoints.map(({ metadata }) => metadata.checkpoint_id);
const sorted = (ids: readonly string[]) => [...ids].sort();
const isOrdered = ({ from = "", to = "~" }: Query): boolean => String(from) <= String(to);

describe.each(ENGINES)("search on %s", (engine) => {
  let bench: TestRecords;
  let all: Checkpoint[];

  beforeAll(async () => {
    bench = await openTestRecords(engine);
    const { repository, store } = bench;
    const ids: string[] = [];
    let commands = 0;
    // Steps of the indexer run between the versions of checkpoints.
    const between = async () => {
      commands += 1;
      if (commands % 7 === 0) await indexAll(store);
    };
    for (const one of fc.sample(spec, { seed: 7, numRuns: 90 }))
      ids.push(await write(repository, one, { between }));
    for (const one of fc.sample(spec, { seed: 8, numRuns: 10 }))
      await write(repository, one, { tenant: "other" });
    await indexAll(store);
    all = await Promise.all(ids.map((id) => repository.get("default", id)));
  });
  afterAll(() => bench.close());

  const expected = (query: Query) => sorted(idsOf(all.filter((one) => isWanted(one, query))));

  test.each([...SINGLES, ...PAIRS])("finds what brute force finds: %s %s", async (...names) => {
    const fields = Object.fromEntries(names.filter(Boolean).map((name) => [name, FILTERS[name]!]));
    const queries = fc.sample(fc.record(fields).filter(isOrdered), { seed: 11, numRuns: 6 });
    const found = await Promise.all(
      queries.map((query) => searchAll(bench.repository, { ...query, limit: 7 })),
    );
    expect(found.map(idsOf).map(sorted)).toEqual(queries.map(expected));
    // A test without hits would prove nothing.
    expect(queries.some((query) => expected(query).length > 0)).toBe(true);
  });

  test("finds what brute force finds, for any filters and page size", async () => {
    const query = fc.record(
      { ...FILTERS, limit: fc.integer({ min: 1, max: 9 }) },
      { requiredKeys: ["limit"] },
    );
    await fc.assert(
      fc.asyncProperty(query.filter(isOrdered), async (query) => {
        const found = await searchAll(bench.repository, query);
        expect(sorted(idsOf(found))).toEqual(expected(query));
      }),
      { numRuns: 60 },
    );
  });

  test.each([{}, { agent_id: "agent-1" }, { status: "draft" }])("answers newest first: %o", async (query) => {
    const found = idsOf(await searchAll(bench.repository, { ...query, limit: 5 }));
    expect(found).toEqual(sorted(found).reverse());
  });

  test("a search by text returns the checkpoint first that gained the words last", async () => {
    const found = await searchAll(bench.repository, { text: "parser", task_id: "task-1" });
    const seqs = found.map(({ metadata }) => metadata.seq);
    expect(seqs).toEqual([...seqs].sort((a, b) => b - a));
  });

  test("case and Unicode form of words do not matter", async () => {
    const [plain, loud, joined] = await Promise.all(
      ["größe cache", "GRÖSSE, Cache!", "cache_Gro\u0308ße"].map((text) =>
        searchAll(bench.repository, { text }),
      ),
    );
    expect(plain!.length).toBeGreaterThan(0);
    expect(idsOf(joined!)).toEqual(idsOf(plain!));
    expect(loud).toEqual([]); // ß and SS are different words, because lower case does not map SS to ß
  });

  test("a search does not return checkpoints of another tenant", async () => {
    expect(await searchAll(bench.repository, {}, { tenant: "other" })).toHaveLength(10);
    expect(await searchAll(bench.repository, {}, { tenant: "empty" })).toEqual([]);
  });

  test("an unknown word, agent or task finds nothing", async () => {
    for (const query of [{ text: "parser unknown" }, { agent_id: "agent-0" }, { task_id: "none" }]) {
      const page = await search(bench.repository, query);
      expect(page).toMatchObject({ checkpoints: [], corrupt: [], rebuilding: false });
      expect(page.cursor).toBeUndefined();
    }
  });

  test("a full last page has no cursor", async () => {
    const count = expected({ agent_id: "agent-1" }).length;
    const page = await search(bench.repository, { agent_id: "agent-1", limit: count });
    expect(page.checkpoints).toHaveLength(count);
    expect(page.cursor).toBeUndefined();
  });

  test("refuses a damaged cursor and a cursor of another search", async () => {
    const { cursor } = await search(bench.repository, { agent_id: "agent-1", limit: 2 });
    const broken = `${cursor![0] === "A" ? "B" : "A"}${cursor!.slice(1)}`;
    for (const [query, tenant] of [
      [{ agent_id: "agent-2", cursor }, "default"],
      [{ agent_id: "agent-1", phase: "planning", cursor }, "default"],
      [{ agent_id: "agent-1", cursor }, "other"],
      [{ agent_id: "agent-1", cursor: broken }, "default"],
      [{ agent_id: "agent-1", cursor: "x" }, "default"],
    ] as const) {
      await expect(search(bench.repository, query, tenant)).rejects.toMatchObject({
        code: "INVALID",
        fields: [{ path: "cursor" }],
      });
    }
    // The page size may change from page to page.
    expect(
      (await search(bench.repository, { agent_id: "agent-1", limit: 3, cursor })).checkpoints,
    ).toHaveLength(3);
  });

  test("refuses a range that ends before it begins, and a text without words", async () => {
    const range = { from: "2026-01-02T00:00:00Z", to: "2026-01-01T00:00:00Z" };
    await expect(search(bench.repository, range)).rejects.toMatchObject({ fields: [{ path: "to" }] });
    await expect(search(bench.repository, { text: "a ! ?" })).rejects.toMatchObject({
      fields: [{ path: "text" }],
    });
  });
});

describe.each(ENGINES)("pages on %s during concurrent writes", (engine) => {
  let bench: TestRecords;
  beforeAll(async () => {
    bench = await openTestRecords(engine);
  });
  afterAll(() => bench.close());

  test("a checkpoint that matches all the time appears exactly once", async () => {
    const { repository, store } = bench;
    const steady: Spec[] = fc.sample(spec, { seed: 3, numRuns: 60 }).map((one) => ({
      ...one,
      agent: "agent-1",
      words: ["parser", ...one.words.filter((w) => w !== "parser")],
    }));
    const ids: string[] = [];
    for (const one of steady) ids.push(await write(repository, one));
    await indexAll(store);
    const busy = fc.sample(spec, { seed: 4, numRuns: 60 }).values();
    const between = async () => {
      const one = busy.next().value;
      if (one) await write(repository, { ...one, agent: "agent-1", words: ["parser"] });
      await indexAll(store);
    };
    for (const query of [{ agent_id: "agent-1" }, { text: "parser" }, {}]) {
      const found = idsOf(await searchAll(repository, { ...query, limit: 7 }, { between }));
      expect(new Set(found).size).toBe(found.length);
      expect(found).toEqual(expect.arrayContaining(ids));
    }
  });
});
