// The sweep of superseded drafts: which drafts it finalizes and when, what it leaves alone, and what is left
// after a crash at each of its steps.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CommittedAnswer } from "../../../../shared/protocol/answers.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { type Store, StoreError } from "../../../../shared/store/store.ts";
import { acknowledge, handoffInput, offer, refusal } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, finalize, input, send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";

const AFTER_MS = 900_000;
const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

describe.each(ENGINES)("superseded drafts on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  const metadataOf = async ({ checkpoint_id: id }: CommittedAnswer) =>
    (await place.repository.get("default", id)).metadata;
  const update = ({ checkpoint_id, task_id: task }: CommittedAnswer, fence?: number) =>
    send(
      place.repository,
      "update",
      { checkpoint_id, patch: { execution_state: { goal: "late" } } },
      { task, ...(fence !== undefined && { fence }) },
    );

  const sweep = (afterMs = AFTER_MS): Promise<number> => place.sweepAllDrafts(afterMs);

  async function finalizations(task: string) {
    return (await place.trail(task)).filter(({ op }) => op === "finalize");
  }

  async function written(task: string, count: number): Promise<CommittedAnswer[]> {
    const answers: CommittedAnswer[] = [];
    for (let n = 0; n < count; n += 1) answers.push(await create(place.repository, { task }));
    return answers;
  }

  test("are finalized some time after the next checkpoint, and the latest one never", async () => {
    await sweep(0);
    const task = place.fresh();
    const first = await create(place.repository, { task });
    place.now += AFTER_MS;
    const second = await create(place.repository, { task });
    const before = await place.head(task);
    place.now += AFTER_MS - 1;
    expect(await sweep()).toBe(0);
    expect(await metadataOf(first)).toMatchObject({ status: "draft", version: 1 });
    place.now += 1;
    expect(await sweep()).toBe(1);
    expect(await metadataOf(first)).toMatchObject({
      status: "finalized",
      final_status: "superseded",
      version: 2,
    });
    place.now += 100 * AFTER_MS;
    expect(await sweep()).toBe(0);
    expect(await metadataOf(second)).toMatchObject({ status: "draft", version: 1 });

    const { audit_seq: _seq, audit_hash: _hash, ...head } = before;
    expect(await place.head(task)).toMatchObject(head);
    expect(await finalizations(task)).toMatchObject([
      {
        actor: { id: "writer", type: "service" },
        checkpoint_id: first.checkpoint_id,
        command_id: null,
        final_status: "superseded",
        old_hash: first.hash,
        version: 2,
      },
    ]);
    const [event] = (await place.outbox(task)).filter(({ event }) => event.type === "CHECKPOINT_FINALIZED");
    expect(event?.event.data).toEqual({ checkpointId: first.checkpoint_id, status: "superseded" });
    const { stored, replayed } = await place.replayed(task);
    expect(replayed).toEqual(stored);
  });

  test("keep the updates that came before, and refuse later ones", async () => {
    const task = place.fresh();
    const [first, second] = await written(task, 2);
    await update(first!);
    await sweep(0);
    const kept = await place.repository.get("default", first!.checkpoint_id);
    expect(kept).toMatchObject({
      metadata: { final_status: "superseded", version: 3 },
      execution_state: { goal: "late" },
      compliance: { retention_policy: "working" },
    });
    const refused = await refusal(update(first!));
    expect(refused).toMatchObject({
      code: "FINALIZED",
      retryable: false,
      message: "a finalized checkpoint never changes",
      details: { checkpoint_id: first!.checkpoint_id, final_status: "superseded" },
    });
    expect(await update(second!)).toMatchObject({ version: 2 });
  });

  test("are left alone when they were finalized before", async () => {
    const task = place.fresh();
    const [first] = await written(task, 2);
    await finalize(place.repository, first!.checkpoint_id, "succeeded", { task });
    const before = await place.repository.get("default", first!.checkpoint_id);
    expect(await sweep(0)).toBe(0);
    expect(await place.repository.get("default", first!.checkpoint_id)).toEqual(before);
  });

  test("of an earlier owner are finalized after the first checkpoint of the next one", async () => {
    await sweep(0);
    const task = place.fresh();
    await send(place.repository, "take", {}, { task, agent: "a" });
    const first = await create(place.repository, { task, agent: "a", fence: 1 });
    await send(place.repository, "take", {}, { task, agent: "b" });
    place.now += 10 * AFTER_MS;
    expect(await sweep()).toBe(0);
    await create(place.repository, { task, agent: "b", fence: 2 });
    expect(await sweep()).toBe(0);
    place.now += AFTER_MS;
    expect(await sweep()).toBe(1);
    expect(await metadataOf(first)).toMatchObject({ final_status: "superseded", agent_id: "a" });
    expect(await place.head(task)).toMatchObject({ owner: "b", fence: 2 });
  });

  test("that were handed over keep the outcome of the handoff", async () => {
    const task = place.fresh();
    await create(place.repository, { task, agent: "a" });
    const handed = await create(place.repository, { task, agent: "a", checkpoint: handoffInput() });
    const offered = await offer(place.repository, handed.checkpoint_id);
    await acknowledge(place.repository, offered, { agent: "b" });
    await create(place.repository, { task, agent: "b", fence: 1 });
    expect(await sweep(0)).toBe(1);
    expect(await metadataOf(handed)).toMatchObject({ final_status: "handed_off" });
  });

  test("do not end their task in phase complete", async () => {
    const task = place.fresh();
    const first = await create(place.repository, { task, checkpoint: input({ phase: "complete" }) });
    await create(place.repository, { task });
    await sweep(0);
    expect(await metadataOf(first)).toMatchObject({ final_status: "superseded" });
    expect(await place.head(task)).toMatchObject({ state: "active", last_successful_id: null });
  });

  test("do not resume a blocked task for its taker, nor count as a sign of its life", async () => {
    const task = await place.spent();
    await send(place.repository, "take", {}, { task, agent: "anna" });
    const before = await place.head(task);
    place.now += 1_000;
    expect(await sweep(0)).toBeGreaterThan(0);
    const { state, blocked, updated_at } = await place.head(task);
    expect({ state, blocked, updated_at }).toEqual({
      state: "blocked",
      blocked: before.blocked,
      updated_at: before.updated_at,
    });
  });

  test("do not count as the first checkpoint of a next agent that writes nothing", async () => {
    const task = place.fresh();
    await create(place.repository, { task, agent: "giver" });
    const handed = await create(place.repository, { task, agent: "giver", checkpoint: handoffInput() });
    await acknowledge(place.repository, await offer(place.repository, handed.checkpoint_id), {
      agent: "taker",
    });
    place.now += AFTER_MS + 1;
    expect(await sweep(0)).toBeGreaterThan(0);
    expect(await finalizations(task)).toMatchObject([{ final_status: "superseded", fence: 1 }]);
    await place.repository.handoffActions.lapseHandoff("default", handed.checkpoint_id);
    const lapsed = { signal: "handoff_lapsed", class: "timeout", agent_id: "taker", fence: 1 } as const;
    expect(await place.fail(task, lapsed)).toMatchObject({ applied: true });
  });

  test("are finalized once by many sweeps at the same time", async () => {
    await sweep(0);
    const task = place.fresh();
    const count = 40;
    await written(task, count);
    for (let more = true; more; ) {
      const steps = await Promise.all(Array.from({ length: 4 }, () => place.sweepDrafts()));
      more = steps.some((step) => step.more);
    }
    const entries = await finalizations(task);
    expect(new Set(entries.map(({ checkpoint_id }) => checkpoint_id)).size).toBe(count - 1);
    expect(entries).toHaveLength(count - 1);
  });

  test.each(["before finalize_draft", "after finalize_draft", "before pass_drafts", "after pass_drafts"])(
    "are finalized once although a sweep ends %s",
    async (moment) => {
      await sweep(0);
      const task = place.fresh();
      await written(task, 3);
      await expect(place.sweepDrafts(undefined, endingStore(place.store, moment))).rejects.toThrow(
        "it ended",
      );
      await sweep(0);
      const entries = await finalizations(task);
      expect(entries.map(({ final_status }) => final_status)).toEqual(["superseded", "superseded"]);
      const { stored, replayed } = await place.replayed(task);
      expect(replayed).toEqual(stored);
    },
  );

  test("of a task with a damaged head are skipped, and those of other tasks are not", async () => {
    await sweep(0);
    const [damaged, other] = [place.fresh(), place.fresh()];
    await written(damaged, 2);
    const [first] = await written(other, 2);
    const key = tenantKeys("default").task(damaged);
    const head = await place.store.read(WRITE, (reader) => reader.get(key));
    await place.store.transact(WRITE, async (tx) => tx.set(key, Buffer.from("damaged")));
    const step = await place.sweepDrafts();
    await place.store.transact(WRITE, async (tx) => tx.set(key, head!));
    expect(step).toMatchObject({ finalized: 1, skipped: [{ tenant: "default", task: damaged, seq: 1 }] });
    expect(await metadataOf(first!)).toMatchObject({ final_status: "superseded" });
  });

  test("stay drafts if they or the checkpoint after them is damaged", async () => {
    const task = place.fresh();
    const [, second, third] = await written(task, 4);
    const key = tenantKeys("default").checkpoint(task, third!.checkpoint_id);
    await place.store.transact(WRITE, async (tx) => tx.set(key, Buffer.from("damaged")));
    await sweep(0);
    expect(await finalizations(task)).toHaveLength(1);
    expect(await metadataOf(second!)).toMatchObject({ status: "draft" });
  });

  test("leave a store in which a scrub finds nothing but the damage of these tests", async () => {
    await sweep(0);
    const { findings } = await scrub(place);
    expect(new Set(findings.map(({ kind }) => kind))).toEqual(new Set(["checkpoint"]));
    expect(new Set(findings.map(({ task_id }) => task_id)).size).toBe(1);
  });
});

/** A store that a sweep loses before or after its first transaction of a kind. */
function endingStore(store: Store, moment: string): Store {
  const [when, label] = moment.split(" ");
  return wrappedStore(store, async (options, body) => {
    const ended = () => new StoreError("closed", "it ended");
    if (options.label === label && when === "before") throw ended();
    const result = await store.transact(options, body);
    if (options.label === label) throw ended();
    return result;
  });
}
