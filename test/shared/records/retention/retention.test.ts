// Retention: what goes, what stays and why, and what is left of a removed checkpoint.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CommittedAnswer } from "../../../../shared/protocol/answers.ts";
import type { QueryParams } from "../../../../shared/protocol/queries.ts";
import { findRecoveryPoint } from "../../../../shared/records/recovery/recovery-point.ts";
import { stepIndex } from "../../../../shared/records/search/indexer.ts";
import { familyOf } from "../../../harness/records/edits.ts";
import { refusal } from "../../../harness/records/handoffs.ts";
import { create, ENGINES, finalize, input, send } from "../../../harness/records/records.ts";
import { dump } from "../../../harness/records/rows.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const DAY_MS = 86_400_000;
const reading = { label: "test", deadlineMs: 5_000 } as const;

describe.each(ENGINES)("retention on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  async function written(task: string, count: number, policy?: string): Promise<CommittedAnswer[]> {
    const answers: CommittedAnswer[] = [];
    for (let n = 0; n < count; n += 1) {
      const checkpoint = {
        ...input(),
        ...(policy !== undefined && { compliance: { retention_policy: policy } }),
      };
      answers.push(await create(place.repository, { task, checkpoint }));
    }
    return answers;
  }

  const history = (task: string, more: Partial<QueryParams<"history">> = {}) =>
    place.repository.history("default", { task_id: task, limit: 200, order: "oldest", ...more });
  const living = async (task: string): Promise<number[]> =>
    (await history(task)).checkpoints.map(({ metadata }) => metadata.seq);
  const removal = (id: string, task: string, more: object = {}) =>
    send(place.repository, "remove", { checkpoint_id: id, ...more }, { task, agent: "human=olga" });
  const pass = (days: number): void => {
    place.now += days * DAY_MS;
  };
  const sound = async (): Promise<void> => {
    expect((await scrub({ store: place.store, repository: place.repository })).findings).toEqual([]);
  };

  test("US-308 checkpoints older than 7 days go, and 3 of each task stay", async () => {
    const task = place.fresh();
    const ids = await written(task, 6);
    pass(6.9);
    expect(await place.retain()).toBe(0);
    pass(0.2);
    expect(await place.retain()).toBe(3);
    expect(await living(task)).toEqual([4, 5, 6]);
    pass(365);
    expect(await place.retain()).toBe(0);
    expect(await living(task)).toEqual([4, 5, 6]);
    const { removed = [], checkpoints } = await history(task);
    expect(checkpoints).toHaveLength(3);
    expect(removed).toMatchObject(
      ids.slice(0, 3).map(({ checkpoint_id, hash, seq }) => ({
        ...{ checkpoint_id, hash, seq, task_id: task, version: 1, reason: "age" },
        ...{ retention_policy: "working", removed_by: "writer" },
      })),
    );
    await sound();
  });

  test("each removal is audited with the hash, and announced", async () => {
    const task = place.fresh();
    const [first] = (await written(task, 4)) as [CommittedAnswer];
    pass(8);
    expect(await place.retain()).toBe(1);
    const trail = await place.trail(task);
    expect(trail.at(-1)).toMatchObject({
      op: "remove",
      actor: { id: "writer", type: "service" },
      checkpoint_id: first.checkpoint_id,
      old_hash: first.hash,
      new_hash: null,
      reason: "age",
      retention_policy: "working",
    });
    const events = await place.outbox(task);
    expect(events.at(-1)?.event).toMatchObject({
      type: "CHECKPOINT_REMOVED",
      data: { checkpointId: first.checkpoint_id, taskId: task, reason: "age" },
    });
    const { stored, replayed } = await place.replayed(task);
    expect(stored).toEqual(replayed);
  });

  test("a removed checkpoint answers that it was removed", async () => {
    const task = place.fresh();
    const [first, second] = (await written(task, 5)) as [CommittedAnswer, CommittedAnswer];
    pass(8);
    await place.retain();
    const { checkpoint_id: id } = first;
    const gone = { code: "NOT_FOUND", details: { checkpoint_id: id, removed: { seq: 1, hash: first.hash } } };
    expect(await refusal(place.repository.get("default", id))).toMatchObject(gone);
    expect(await refusal(place.repository.get("default", id, 1))).toMatchObject(gone);
    expect(await refusal(finalize(place.repository, id, "succeeded", { task }))).toMatchObject(gone);
    expect(await refusal(removal(id, task))).toMatchObject(gone);
    const link = { parent_id: second.checkpoint_id, child_id: id };
    expect(await refusal(send(place.repository, "link", link, { task }))).toMatchObject(gone);
    expect(await refusal(send(place.repository, "handoff", { checkpoint_id: id }, { task }))).toMatchObject(
      gone,
    );
    expect(place.corrupt).toEqual([]);
  });

  test("checkpoints of a policy that promises a time are kept for it, and drafts too", async () => {
    const task = place.fresh();
    const [draft, final] = (await written(task, 2, "P30D")) as [CommittedAnswer, CommittedAnswer];
    await written(task, 3);
    await finalize(place.repository, final.checkpoint_id, "handed_off", { task });
    pass(29.9);
    expect(await place.retain()).toBe(0);
    expect(await refusal(removal(draft.checkpoint_id, task))).toMatchObject({
      code: "CONFLICT",
      details: { reason: "promised" },
    });
    pass(0.2);
    expect(await place.retain()).toBe(2);
    const forever = place.fresh();
    await written(forever, 5, "permanent");
    pass(36_000);
    expect(await place.retain()).toBeGreaterThan(-1);
    expect(await living(forever)).toEqual([1, 2, 3, 4, 5]);
    await sound();
  });

  test("US-308 of a completed task only the final checkpoint stays, for 30 days", async () => {
    const task = place.fresh();
    await written(task, 4);
    const done = await create(place.repository, { task, checkpoint: input({ phase: "complete" }) });
    await finalize(place.repository, done.checkpoint_id, "succeeded", { task });
    expect((await place.head(task)).state).toBe("completed");
    expect(await place.retain()).toBe(4);
    expect(await living(task)).toEqual([5]);
    pass(29.9);
    expect(await place.retain()).toBe(0);
    pass(0.2);
    expect(await place.retain()).toBe(1);
    expect(await place.repository.latest("default", task)).toMatchObject({
      checkpoint: null,
      removed: { checkpoint_id: done.checkpoint_id, reason: "completed" },
    });
    await sound();
    // A new checkpoint opens the task again.
    await written(task, 1);
    expect(await living(task)).toEqual([6]);
    expect((await place.repository.latest("default", task)).checkpoint?.metadata.seq).toBe(6);
    const point = await place.store.read(reading, (reader) => findRecoveryPoint(reader, "default", task));
    expect(point).toMatchObject({ found: true });
    await sound();
  });

  test("US-308 of more than 100 checkpoints of a mission the oldest go at any age", async () => {
    const task = place.fresh();
    await send(place.repository, "mission_start", { title: "Implement user authentication" }, { task });
    for (let n = 0; n < 102; n += 1) await send(place.repository, "mission_checkpoint", {}, { task });
    expect(await place.retain()).toBe(2);
    expect(await living(task)).toEqual(Array.from({ length: 100 }, (_, n) => n + 3));
    expect((await history(task)).removed).toMatchObject([{ reason: "count" }, { reason: "count" }]);
  });

  test("earlier versions, chunks, links and the entries of the search go with the checkpoint", async () => {
    const task = place.fresh();
    const large = "x y".repeat(60_000).split("").reverse().join("");
    const [first] = (await written(task, 4)) as [CommittedAnswer];
    const patch = { execution_state: { current_focus: `zebrafish ${large}` } };
    const { checkpoint_id } = first;
    await send(place.repository, "update", { checkpoint_id, patch }, { task });
    await finalize(place.repository, checkpoint_id, "handed_off", { task });
    const index = async () => {
      for (let more = true; more; ) ({ more } = await stepIndex(place.store, async () => {}));
    };
    await index();
    const search = async () => place.repository.search("default", { text: "zebrafish", limit: 10 });
    expect((await search()).checkpoints).toHaveLength(1);
    const { indexed, total } = await place.repository.indexStatus();
    expect(indexed).toBe(total);
    pass(8);
    expect(await place.retain()).toBeGreaterThan(0);
    expect(await search()).toMatchObject({ checkpoints: [], corrupt: [] });
    await index();
    expect(await search()).toMatchObject({ checkpoints: [], corrupt: [] });
    const after = await place.repository.indexStatus();
    expect(after.indexed).toBe(after.total);
    const bytes = Buffer.from(checkpoint_id.replaceAll("-", ""), "hex");
    const left = (await dump(place.store)).filter(({ key }) => Buffer.from(key).includes(bytes));
    // The id of a checkpoint is that of the command that created it.
    expect([...new Set(left.map(familyOf))].sort()).toEqual(["idem", "ids", "s/expiry"]);
    await sound();
  });

  test("a hold keeps everything, until it is released", async () => {
    const task = place.fresh();
    const [first] = (await written(task, 5)) as [CommittedAnswer];
    const hold = (body: object) => send(place.repository, "hold", { ...body }, { task, agent: "human=olga" });
    expect(await hold({ hold: "case-7" })).toMatchObject({ holds: ["case-7"], retention_policy: null });
    expect(await hold({ hold: "case-8" })).toMatchObject({ holds: ["case-7", "case-8"] });
    pass(100);
    expect(await place.retain()).toBe(0);
    expect(await refusal(removal(first.checkpoint_id, task))).toMatchObject({
      code: "CONFLICT",
      details: { reason: "held" },
    });
    expect(await hold({ release: "case-7" })).toMatchObject({ holds: ["case-8"] });
    expect(await refusal(hold({ release: "case-7" }))).toMatchObject({ code: "CONFLICT" });
    expect(await place.retain()).toBe(0);
    await hold({ release: "case-8" });
    expect(await place.retain()).toBe(2);
    const { stored, replayed } = await place.replayed(task);
    expect(stored).toEqual(replayed);
    await sound();
  });

  test("a hold states who placed it, when and why, in the trail and in the list of all holds", async () => {
    const [task, other] = [place.fresh(), place.fresh()];
    await written(task, 1);
    await written(other, 1);
    const hold = (of: string, body: object) =>
      send(place.repository, "hold", { ...body }, { task: of, agent: "human=olga" });
    await hold(task, { hold: "case-1", reason: "litigation", case: "2026-CV-0117" });
    await hold(task, { hold: "case-2" });
    await hold(other, { hold: "case-1", reason: "audit" });
    const again = { hold: "case-1", reason: "other", case: "2026-CV-0118" };
    expect(await refusal(hold(task, again))).toMatchObject({
      code: "CONFLICT",
      details: { hold: "case-1", by: "human=olga", reason: "litigation", case: "2026-CV-0117" },
    });
    await send(place.repository, "retain", { retention_policy: "P6Y" }, { task, agent: "human=olga" });
    const at = new Date(place.now).toISOString();
    const listed = async () => {
      const found = [];
      for (let cursor: string | undefined; ; ) {
        const query = { limit: 1, ...(cursor !== undefined && { cursor }) };
        const page = await place.repository.erasure.holds("default", query);
        found.push(...page.holds);
        cursor = page.cursor;
        if (cursor === undefined) return found;
      }
    };
    const facts = { by: "human=olga", at, reason: null, case: null };
    const first = { task_id: task, name: "case-1", ...facts, reason: "litigation", case: "2026-CV-0117" };
    const third = { task_id: other, name: "case-1", ...facts, reason: "audit" };
    expect(await listed()).toEqual([first, { task_id: task, name: "case-2", ...facts }, third]);
    expect((await place.head(task)).retention).toMatchObject({ policy: "P6Y", holds: ["case-1", "case-2"] });
    expect((await place.trail(task)).find(({ op }) => op === "hold")).toMatchObject({
      ...{ actor: { id: "human=olga", type: "human" }, at, hold: "case-1", reason: "litigation" },
    });
    await hold(other, { hold: "case-1", release: "case-1", reason: "appeal" });
    expect((await listed()).at(-1)).toEqual({ ...third, reason: "appeal" });
    await hold(task, { release: "case-1", reason: "settled" });
    await hold(other, { release: "case-1" });
    expect(await listed()).toEqual([{ task_id: task, name: "case-2", ...facts }]);
    const { stored, replayed } = await place.replayed(task);
    expect(stored).toEqual(replayed);
    await hold(task, { release: "case-2" });
    expect(await refusal(hold(task, { reason: "none" }))).toMatchObject({ code: "INVALID" });
    const free = { hold: "case-3", case: "the patient said\n…" };
    expect(await refusal(hold(task, free))).toMatchObject({ code: "INVALID", fields: [{ path: "case" }] });
  });

  test("US-308 retention is configurable per task", async () => {
    const task = place.fresh();
    await written(task, 1);
    await send(place.repository, "retain", { retention_policy: "P60D" }, { task, agent: "human=olga" });
    await written(task, 1);
    await written(task, 1, "working");
    const { checkpoints } = await history(task);
    expect(checkpoints.map(({ compliance }) => compliance.retention_policy)).toEqual([
      "working",
      "P60D",
      "working",
    ]);
    await send(place.repository, "retain", { retention_policy: null }, { task, agent: "human=olga" });
    await written(task, 4);
    pass(59);
    await place.retain();
    expect(await living(task)).toEqual([2, 5, 6, 7]);
    pass(2);
    await place.retain();
    expect(await living(task)).toEqual([5, 6, 7]);
  });

  test("a named checkpoint goes at any age, unless retention keeps it", async () => {
    const task = place.fresh();
    const ids = (await written(task, 5)).map(({ checkpoint_id }) => checkpoint_id);
    const kept = (id: string | undefined, more: object = {}) => refusal(removal(id ?? "", task, more));
    expect(await removal(ids[0]!, task)).toMatchObject({ checkpoint_id: ids[0], seq: 1 });
    expect(await kept(ids[2])).toMatchObject({ code: "CONFLICT", details: { reason: "newest" } });
    expect(await removal(ids[2]!, task, { keep: 1 })).toMatchObject({ seq: 3 });
    expect(await kept(ids[4], { keep: 1 })).toMatchObject({ details: { reason: "recovery" } });
    expect(await kept(ids[3], { keep: 1 })).toMatchObject({ details: { reason: "recovery" } });
    expect(await kept(ids[1], { older_than_days: 3, keep: 2, if_due: true })).toMatchObject({
      details: { reason: "young" },
    });
    expect((await place.trail(task)).filter(({ op }) => op === "remove")).toMatchObject([
      { actor: { id: "human=olga", type: "human" }, reason: "request" },
      { actor: { id: "human=olga", type: "human" }, reason: "request" },
    ]);
    await sound();
  });
});
