/** The comparison of the event stream with the store: a store that was set back, in whole or in part, is older than the stream. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { supersedeAll } from "../../../../shared/records/restored/restored-store.ts";
import type { EventStream } from "../../../../shared/records/scrub/events.ts";
import type { Bytes } from "../../../../shared/store/store.ts";
import { ENGINES, send } from "../../../harness/records/records.ts";
import { dump, restoreRows } from "../../../harness/records/rows.ts";
import { scrub, streamOf } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
const keys = tenantKeys("default");
const MISSING = "the stream has an event whose entry is not in the trail";
const DIFFERS = "the stream has an event that differs from its entry in the trail";

describe.each(ENGINES)("the events of %s", (engine) => {
  let place: TestTasks;
  beforeEach(async () => {
    place = await TestTasks.open(engine);
  });
  afterEach(() => place.close());

  const bodies = async (...tasks: string[]) =>
    (await Promise.all(tasks.map((task) => place.outbox(task)))).flat().map(({ json }) => json);

  /** The findings of a pass in large steps, which are the same in tiny steps. */
  async function found(events: EventStream): Promise<string[][]> {
    const passes = [await scrub(place, { events }), await scrub(place, { events, stepBytes: 1_000 })];
    const [large, tiny] = passes.map(({ findings }) =>
      findings.map(({ task_id, kind, details }) => [task_id, kind, details]),
    );
    expect(tiny).toEqual(large);
    return large!;
  }

  test("accepts the store that made them, and messages that are no events", async () => {
    const task = await place.owned(3);
    const sound = await bodies(task);
    const earlier = sound.map((body) => JSON.stringify({ ...JSON.parse(body), audithash: undefined }));
    const foreign = [
      '{"stream":"FLEET_QUEUE","seq":1}',
      "null",
      "[]",
      "",
      "\u0000",
      '{"tenant":"a b","subject":"*"}',
    ];
    expect(await found(streamOf([...sound, ...earlier, ...foreign]))).toEqual([]);
  });

  test("finds an older copy of the store, also after commands on it, until the events have left", async () => {
    const task = await place.owned(1);
    const early = await bodies(task);
    const older = await dump(place.store);
    const later = await place.owned(1);
    await send(place.repository, "release", {}, { task, fence: 1 });
    const newer = streamOf([...(await bodies(task)), ...(await bodies(later))]);
    expect(await found(newer)).toEqual([]);
    await restoreRows(place.store, older);
    const lost = [later, "event", MISSING];
    expect(await found(newer)).toEqual([[task, "event", MISSING], lost]);
    place.now += 1;
    await place.write(task, "agent-1", { fence: 1 });
    expect(await found(newer)).toEqual([[task, "event", DIFFERS], lost]);
    expect(await found(streamOf(early))).toEqual([]);
  });

  test("finds a deleted newest entry whose every trace in the store was removed", async () => {
    const task = await place.owned(1);
    const before = await dump(place.store);
    await send(place.repository, "release", {}, { task, fence: 1 });
    const events = streamOf(await bodies(task));
    await restoreRows(place.store, before);
    expect(await place.trail(task)).toHaveLength(2);
    expect(await found(events)).toEqual([[task, "event", MISSING]]);
  });

  test.each([
    ["accepts the event of a commit that the copy of a restored backup just missed", 1_000, []],
    ["finds a lost event of long before the restored backup", 3_600_000, [MISSING]],
  ])("%s", async (_title, ageMs, expected) => {
    const before = await dump(place.store);
    const task = await place.owned(1);
    const [event] = await bodies(task);
    await restoreRows(place.store, before);
    const nowMs = Date.now();
    const time = new Date(nowMs - ageMs).toISOString();
    await supersedeAll(place.store, {
      ...{ backupAt: new Date(nowMs).toISOString(), nowMs },
      actor: { id: "human=olga", type: "human" },
    });
    const events = streamOf([JSON.stringify({ ...JSON.parse(event!), time })]);
    expect((await found(events)).map(([, , details]) => details)).toEqual(expected);
  });

  test("finds an event with another hash, and leaves a damaged entry to its trail", async () => {
    const task = await place.owned(1);
    const [first, second] = await bodies(task);
    const forged = JSON.stringify({ ...JSON.parse(second!), audithash: "0".repeat(64) });
    expect(await found(streamOf([first!, forged]))).toEqual([[task, "event", DIFFERS]]);
    await place.store.transact(WRITE, async (tx) => {
      const value = Buffer.from((await tx.get(keys.audit(task, 2))) as Bytes);
      value[0]! ^= 0xff;
      tx.set(keys.audit(task, 2), value);
    });
    const kinds = (await found(streamOf([first!, second!]))).map(([, kind]) => kind);
    expect(kinds).not.toContain("event");
  });

  test("accepts events that are published during the pass", async () => {
    const task = await place.owned(1);
    const live: EventStream = {
      newest: async () => (await bodies(task)).length,
      read: async (fromSeq, limit) => {
        await place.write(task, "agent-1", { fence: 1 });
        return streamOf(await bodies(task)).read(fromSeq, limit);
      },
    };
    expect(await found(live)).toEqual([]);
  });
});
