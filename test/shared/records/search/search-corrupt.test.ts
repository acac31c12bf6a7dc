// Search over damaged rows: a corrupt checkpoint is reported, quarantined, audited and published once, and
// never served.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FleetEvent } from "../../../../shared/protocol/events.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { readOutbox } from "../../../../shared/records/outbox/outbox.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import type { Store } from "../../../../shared/store/store.ts";
import {
  create,
  ENGINES,
  input,
  openTestRecords,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { flip, indexAll, search } from "./corpus.ts";

const options = { label: "test", deadlineMs: 3_000, onUnknown: "safe" } as const;

async function eventsOf(store: Store, type: string): Promise<FleetEvent[]> {
  const partitions = Array.from({ length: LIMITS.outbox_partition_count }, (_, n) => n);
  const found = await store.read(options, (reader) =>
    Promise.all(partitions.map((n) => readOutbox(reader, n, 1_000))),
  );
  return found
    .flatMap(({ entries }) => entries.map(({ event }) => event as FleetEvent))
    .filter((event) => event.type === type);
}

describe.each(ENGINES)("corrupt checkpoints on %s", (engine) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  test.each([
    { by: "time", query: {} },
    { by: "agent", query: { agent_id: "agent-1", phase: "implementing" } },
    { by: "task", query: { task_id: "task-1" } },
    { by: "text", query: { text: "parser" } },
  ])("are reported by a search by $by, beside the sound hits", async ({ query }) => {
    const { repository, store, corrupt } = bench;
    const checkpoint = input({ goal: "parser" });
    const one = await create(repository, { checkpoint });
    const bad = await create(repository, { checkpoint });
    const three = await create(repository, { checkpoint });
    await indexAll(store);
    await flip(store, "task-1", bad.checkpoint_id);

    for (let times = 0; times < 2; times += 1) {
      const page = await search(repository, query);
      expect(page.checkpoints.map(({ metadata }) => metadata.checkpoint_id)).toEqual([
        three.checkpoint_id,
        one.checkpoint_id,
      ]);
      expect(page.corrupt).toMatchObject([{ checkpoint_id: bad.checkpoint_id }]);
    }
    expect(corrupt).toHaveLength(1);
    expect(await eventsOf(store, "CHECKPOINT_CORRUPTED")).toMatchObject([
      { subject: "task-1", data: { checkpointId: bad.checkpoint_id } },
    ]);
    // The quarantine is a transition and so part of the feed. It must not change the index.
    await indexAll(store);
    expect((await search(repository, query)).checkpoints).toHaveLength(2);
  });

  test("count for the page limit, and the cursor continues after them", async () => {
    const { repository, store } = bench;
    const ids: string[] = [];
    for (let n = 0; n < 5; n += 1) ids.push((await create(repository)).checkpoint_id);
    await indexAll(store);
    await flip(store, "task-1", ids[3]!);
    const first = await search(repository, { limit: 2 });
    expect([first.checkpoints.length, first.corrupt.length]).toEqual([1, 1]);
    const rest = await search(repository, { limit: 10, cursor: first.cursor });
    expect(rest.checkpoints.map(({ metadata }) => metadata.checkpoint_id)).toEqual([ids[2], ids[1], ids[0]]);
  });

  test("are returned by the indexer, which continues after them", async () => {
    const { repository, store } = bench;
    const bad = await create(repository);
    const good = await create(repository);
    await flip(store, "task-1", bad.checkpoint_id);
    const step = await stepIndex(store, async () => {});
    expect(step).toMatchObject({
      followed: 2,
      corrupt: [{ tenant: "default", task: "task-1", corrupt: { checkpoint_id: bad.checkpoint_id } }],
    });
    const page = await search(repository, { agent_id: "agent-1" });
    expect(page.checkpoints.map(({ metadata }) => metadata.checkpoint_id)).toEqual([good.checkpoint_id]);
  });
});
