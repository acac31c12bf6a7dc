// Imports from the files of a lost store: only current versions are left, with gaps between them, and the scrub finds the restored task sound.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { originOf } from "../../../../shared/integrity/origin.ts";
import { importTask, type ReadTask, readTask } from "../../../harness/records/imports.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const TARGET = "target";
const BY = { tenant: TARGET, agent: "human=olga", task: "task-1" };

describe.each(ENGINES)("a restoration on %s", (engine) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  /** Three checkpoints, each the child of the one before; the newest versions of the first and the last are left. */
  async function leftOver(): Promise<ReadTask> {
    const { checkpoint_id: first } = await create(bench.repository);
    await send(bench.repository, "update", {
      checkpoint_id: first,
      patch: { execution_state: { goal: "x" } },
    });
    await finalize(bench.repository, first, "succeeded");
    const second = input();
    second.metadata.parent_ids = [first];
    const { checkpoint_id: lost } = await create(bench.repository, { checkpoint: second });
    const third = input();
    third.metadata.parent_ids = [lost, first];
    await create(bench.repository, { checkpoint: third });
    const { origin, versions, removed, records, end } = await readTask(bench.repository, "default", "task-1");
    const left = [versions[2]!, versions[4]!];
    return { origin: { ...origin, source: "mirror", versions: 2 }, versions: left, removed, records, end };
  }

  test("each version is the first of its checkpoint at the next position, and its origin can be recomputed", async () => {
    const read = await leftOver();
    await importTask(bench.repository, read, BY);
    const { versions } = await readTask(bench.repository, TARGET, "task-1");
    const [first, last] = versions.map(({ checkpoint }) => checkpoint);
    expect([first?.metadata, last?.metadata]).toMatchObject([
      { seq: 1, version: 1, status: "finalized" },
      { seq: 2, version: 1, parent_ids: [first?.metadata.checkpoint_id] },
    ]);
    expect(versions.map(({ checkpoint }) => originOf(checkpoint))).toEqual(read.versions);
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
    expect(await bench.repository.task(TARGET, "task-1")).toMatchObject({
      seq: 2,
      owner: null,
      origin: { source: "mirror", complete: true },
    });
  });

  test("a restored task is exported and imported again with all its origins", async () => {
    await importTask(bench.repository, await leftOver(), BY);
    const again = await readTask(bench.repository, TARGET, "task-1");
    await importTask(bench.repository, again, { ...BY, tenant: "third" });
    const { versions } = await readTask(bench.repository, "third", "task-1");
    expect(versions.map(({ checkpoint }) => originOf(checkpoint))).toEqual(again.versions);
    expect((await scrub(bench)).pass).toMatchObject({ findings: 0 });
  });

  test("without the source an incomplete checkpoint is refused", async () => {
    const { origin, ...read } = await leftOver();
    const { source: _source, ...plain } = origin;
    await expect(importTask(bench.repository, { ...read, origin: plain }, BY)).rejects.toMatchObject({
      code: "INVALID",
    });
  });
});
