// Imports of tasks from which retention removed checkpoints, on every engine: their tombstones, what names them, and what is refused.

import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { replay } from "../../../../shared/lifecycle/replay.ts";
import type { CommittedAnswer } from "../../../../shared/protocol/answers.ts";
import type { Policies } from "../../../../shared/protocol/policy.ts";
import { importTask, type ReadTask, readTask } from "../../../harness/records/imports.ts";
import { create, ENGINES, finalize, input, send } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const POLICIES: Policies = { defaults: { retention: { completed_days: 1 } }, tenants: {} };
const DAY_MS = 86_400_000;
const TARGET = "target";

describe.each(ENGINES)("an import of removed checkpoints on %s", (engine) => {
  let place: TestTasks;
  let task: string;
  let by: { tenant: string; task: string; agent: string };
  beforeEach(async () => {
    place = await TestTasks.open(engine, POLICIES);
    task = place.fresh();
    by = { tenant: TARGET, task, agent: "human=olga" };
  });
  afterEach(() => place.close());

  const codeOf = (done: Promise<unknown>): Promise<string> =>
    done.then(
      () => "applied",
      (error: { code?: string }) => error.code ?? String(error),
    );
  const add = (parents?: readonly string[], state: object = {}): Promise<CommittedAnswer> => {
    const checkpoint = input(state);
    if (parents !== undefined) checkpoint.metadata.parent_ids = [...parents];
    return create(place.repository, { task, checkpoint });
  };
  const remove = (id: string, of = task) =>
    send(place.repository, "remove", { checkpoint_id: id, keep: 1 }, { task: of, agent: "human=olga" });
  const history = async (tenant: string, of = task) => {
    const { checkpoints, removed = [] } = await place.repository.history(tenant, {
      ...{ task_id: of, limit: 100, order: "oldest" as const },
    });
    const tombstones = removed.map(({ hash: _hash, audit_seq: _entry, ...one }) => one);
    return { living: checkpoints.map(({ metadata }) => [metadata.seq, metadata.checkpoint_id]), tombstones };
  };
  const findings = async () =>
    (await scrub({ store: place.store, repository: place.repository })).pass.findings;
  const move = async (read?: ReadTask): Promise<void> =>
    importTask(place.repository, read ?? (await readTask(place.repository, "default", task)), by);

  test("history shows them at their positions, and their task continues", async () => {
    const first = await add();
    const patch = { execution_state: { goal: "a second version" } };
    await send(place.repository, "update", { checkpoint_id: first.checkpoint_id, patch }, { task });
    for (let n = 0; n < 5; n += 1) await add();
    place.now += 8 * DAY_MS;
    expect(await place.retain()).toBe(3);
    await move();
    const was = await history("default");
    expect(was.tombstones).toHaveLength(3);
    expect(was.tombstones[0]).toMatchObject({ version: 2, reason: "age", removed_by: "writer" });
    expect(await history(TARGET)).toEqual(was);
    const gone = place.repository.get(TARGET, first.checkpoint_id);
    await expect(gone).rejects.toMatchObject({
      code: "NOT_FOUND",
      details: { removed: { seq: 1, version: 2 } },
    });
    const [before, after] = [
      await place.repository.task("default", task),
      await place.repository.task(TARGET, task),
    ];
    for (const name of ["phase", "agent_id", "agent_type", "latest_id", "seq"] as const)
      expect([name, after[name]]).toEqual([name, before[name]]);
    const { entries } = await place.repository.audit(TARGET, { task_id: task, from_seq: 1, limit: 100 });
    const trail = entries.map(({ entry }) => JSON.parse(entry));
    expect(trail.filter(({ op }) => op === "import_removed")).toHaveLength(3);
    expect(replay(trail)).toMatchObject({ latest_id: before.latest_id, seq: 6 });
    expect(await findings()).toBe(0);
    const point = await place.repository.recoveryPoint(TARGET, { task_id: task, force: false });
    expect(point.point.checkpoint?.metadata.checkpoint_id).toBe(before.latest_id);
    await create(place.repository, { tenant: TARGET, task });
    place.now += 8 * DAY_MS;
    expect(await place.retain()).toBe(1);
    expect(await findings()).toBe(0);
  });

  test("a third tenant gets the same tombstones", async () => {
    for (let n = 0; n < 5; n += 1) await add();
    place.now += 8 * DAY_MS;
    expect(await place.retain()).toBe(2);
    await move();
    await importTask(place.repository, await readTask(place.repository, TARGET, task), {
      ...by,
      tenant: "third",
    });
    expect(await history("third")).toEqual(await history("default"));
    expect(await findings()).toBe(0);
  });

  test("branches keep their parents, living and removed, and a fork begins from what is left", async () => {
    const root = await add([]);
    const left = await add([root.checkpoint_id]);
    const right = await add([root.checkpoint_id]);
    const merged = await add([left.checkpoint_id, right.checkpoint_id]);
    await add([merged.checkpoint_id]);
    await add([merged.checkpoint_id]);
    await remove(left.checkpoint_id);
    await move();
    expect(await history(TARGET)).toEqual(await history("default"));
    const found = await place.repository.get(TARGET, merged.checkpoint_id);
    expect(found.metadata.parent_ids).toEqual([left.checkpoint_id, right.checkpoint_id]);
    expect(await findings()).toBe(0);
    const into = { tenant: TARGET, task: `${task}-fork`, agent: "agent-1" };
    const forked = await send(place.repository, "fork", { source_task_id: task }, into);
    expect(forked).toMatchObject({ seq: 1 });
    const named = { source_task_id: task, source_checkpoint_id: left.checkpoint_id };
    expect(await codeOf(send(place.repository, "fork", named, { ...into, task: `${task}-none` }))).toBe(
      "NOT_FOUND",
    );
    expect(await findings()).toBe(0);
  });

  test("a fork is imported, though its source in the other task is removed", async () => {
    const first = await add([]);
    const fork = `${task}-fork`;
    const source = { source_task_id: task, source_checkpoint_id: first.checkpoint_id };
    await send(place.repository, "fork", source, { task: fork });
    for (let n = 0; n < 3; n += 1) await add([]);
    await remove(first.checkpoint_id);
    await move();
    const read = await readTask(place.repository, "default", fork);
    await importTask(place.repository, read, { ...by, task: fork });
    expect(await history(TARGET, fork)).toEqual(await history("default", fork));
    expect(await findings()).toBe(0);
  });

  test("a completed task of which the newest checkpoint is removed too stays completed", async () => {
    await add();
    const last = await add(undefined, { phase: "complete" });
    await finalize(place.repository, last.checkpoint_id, "succeeded", { task });
    place.now += 8 * DAY_MS;
    expect(await place.retain()).toBe(2);
    await move();
    expect(await history(TARGET)).toEqual(await history("default"));
    expect((await history(TARGET)).living).toEqual([]);
    expect(await place.repository.task(TARGET, task)).toMatchObject({
      ...{
        state: "completed",
        latest_id: last.checkpoint_id,
        last_successful_id: last.checkpoint_id,
        phase: "complete",
      },
    });
    expect(await findings()).toBe(0);
  });

  test("refuses one at another position, of another task, or that falls back to nothing", async () => {
    const [first, second] = [await add([]), await add([])];
    for (let n = 0; n < 3; n += 1) await add([]);
    await remove(first.checkpoint_id);
    await remove(second.checkpoint_id);
    const { origin, removed, versions } = await readTask(place.repository, "default", task);
    await send(place.repository, "import_begin", { origin }, by);
    const one = removed[0]!;
    const step = (index: number, change: object = {}) =>
      send(place.repository, "import_removed", { index, removed: { ...one, ...change } }, by);
    expect(await codeOf(step(1))).toBe("CONFLICT");
    const forged: Record<string, object> = {
      "another position": { seq: 2 },
      "nothing to fall back to": { fallback_id: uuidv7() },
      "an unknown reason": { reason: "mood" },
      "no hash": { hash: "none" },
      "no time": { removed_at: "yesterday" },
      "an unknown phase": { phase: "dreaming" },
      "no principal": { removed_by: "a b" },
    };
    for (const [name, change] of Object.entries(forged))
      expect([name, await codeOf(step(0, change))]).toEqual([name, "INVALID"]);
    const commandId = uuidv7();
    const once = { ...by, commandId };
    const body = { index: 0, removed: one };
    expect(await send(place.repository, "import_removed", body, once)).toMatchObject({
      replayed: false,
      seq: 1,
    });
    expect(await send(place.repository, "import_removed", body, once)).toMatchObject({ replayed: true });
    expect(await codeOf(step(0))).toBe("CONFLICT");
    expect(await codeOf(step(1, { seq: 2 }))).toBe("CONFLICT");
    // A version of a removed checkpoint cannot come back under its id.
    const revived = structuredClone(versions[0]!.checkpoint);
    revived.metadata.checkpoint_id = one.checkpoint_id;
    const version = { index: 1, hash: versions[0]!.hash, checkpoint: revived };
    expect(await codeOf(send(place.repository, "import_version", version, by))).toBe("INVALID");
    expect(await findings()).toBe(0);
    expect((await place.repository.task(TARGET, task)).origin).toMatchObject({ imported: 1, versions: 5 });
  });
});
