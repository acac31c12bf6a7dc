/** The resumption of missions from their checkpoints (US-305, US-307, and the edge cases of seed 002) on real stores. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { completeSortie, MISSION, report, startMission } from "../../../harness/records/missions.ts";
import { waitingEvents } from "../../../harness/records/outbox.ts";
import {
  create,
  ENGINES,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const by = { task: MISSION, agent: "dispatch" };
const keys = tenantKeys("default");

describe.each(ENGINES)("a mission on %s", (engine) => {
  let bench: TestRecords;
  let now: number;
  beforeEach(async () => {
    now = Date.now();
    bench = await openTestRecords(engine, () => {
      now += 1;
      return now;
    });
  });
  afterEach(() => bench.close());

  const resume = (body: object = {}) => send(bench.repository, "mission_resume", { ...body }, by);
  const snapshot = async () => (await send(bench.repository, "mission_checkpoint", {}, by)).checkpoint_id;
  const sorties = async () =>
    (await bench.repository.missions.sorties("default", { mission_id: MISSION, limit: 1_000 })).sorties;
  const statuses = async () => (await sorties()).map(({ status }) => status);
  const mission = () => bench.repository.missions.find("default", "dispatch", { mission_id: MISSION });
  const audited = async () => (await bench.repository.task("default", MISSION)).audit_seq;
  const corrupt = (id: string) =>
    bench.store.transact({ label: "test", deadlineMs: 5_000, onUnknown: "unsafe" }, async (tx) =>
      tx.set(keys.checkpoint(MISSION, id), Buffer.from("damaged")),
    );

  test("US-305 a named checkpoint restores the states of sorties and clears later progress", async () => {
    await startMission(bench.repository, 4);
    await report(bench.repository, 2, { status: "in_progress", progress_notes: "half done" });
    const checkpoint_id = await snapshot();
    await report(bench.repository, 2, {
      status: "completed",
      progress_notes: "done",
      files: ["src/more.ts"],
    });
    await completeSortie(bench.repository, 1);
    await send(bench.repository, "sortie_update", { sortie_id: "srt-003", assigned_to: "specialist-9" }, by);
    await send(
      bench.repository,
      "sortie_add",
      { sorties: [{ title: "late", assigned_to: "specialist-5" }] },
      by,
    );
    const answer = await resume({ checkpoint_id });
    expect(answer).toMatchObject({
      checkpoint_id,
      progress_percent: 0,
      restored: { sorties: 4, locks: 0, messages: 0 },
      kept_sorties: [],
      passed_over: [],
    });
    const after = await sorties();
    expect(after).toMatchObject([
      { sortie_id: "srt-001", status: "assigned", started_at: null, ended_at: null },
      { sortie_id: "srt-002", status: "in_progress", progress_notes: "half done", files: ["src/part-2.ts"] },
      { sortie_id: "srt-003", status: "assigned", assigned_to: "specialist-3" },
      { sortie_id: "srt-004", status: "assigned" },
      { sortie_id: "srt-005", status: "pending", assigned_to: null, title: "late" },
    ]);
    expect((await mission()).sorties).toMatchObject({
      pending: 1,
      assigned: 3,
      in_progress: 1,
      completed: 0,
    });
    expect((await scrub(bench)).findings).toEqual([]);
  });

  test("US-305 without a checkpoint the newest one is loaded, and a milestone above its progress is reached again", async () => {
    await startMission(bench.repository, 4);
    await completeSortie(bench.repository, 1);
    now += LIMITS.specialist_active_ms;
    await report(bench.repository, 2, { status: "in_progress" });
    await report(bench.repository, 2, { status: "completed" });
    const history = await bench.repository.history("default", {
      task_id: MISSION,
      limit: 10,
      order: "newest",
    });
    const [second, first] = history.checkpoints.map(({ metadata }) => metadata.checkpoint_id);
    expect((await resume()).checkpoint_id).toBe(second);
    expect(await resume({ checkpoint_id: first })).toMatchObject({ progress_percent: 25 });
    expect(await mission()).toMatchObject({ milestone: 25, progress_percent: 25 });
    const { checkpoint_id } = await completeSortie(bench.repository, 3);
    expect(checkpoint_id).toBeDefined();
    expect(await mission()).toMatchObject({ milestone: 50 });
  });

  test("US-305 fleet_recovered has the shape of seed 002", async () => {
    await startMission(bench.repository, 4);
    const checkpoint_id = await snapshot();
    await completeSortie(bench.repository, 1);
    await resume({ checkpoint_id });
    const [recovered] = await waitingEvents(bench.store, "fleet_recovered");
    expect(recovered?.data).toEqual({
      checkpoint_id,
      mission_id: MISSION,
      recovered_sorties: 4,
      recovered_locks: 0,
      requeued_messages: 0,
      recovery_duration_ms: expect.any(Number),
    });
  });

  test("a second resumption changes no sortie", async () => {
    await startMission(bench.repository, 4);
    const checkpoint_id = await snapshot();
    await completeSortie(bench.repository, 1);
    await resume({ checkpoint_id });
    const before = { sorties: await sorties(), audit: await audited() };
    expect(await resume({ checkpoint_id })).toMatchObject({ restored: { sorties: 4 } });
    expect(await sorties()).toEqual(before.sorties);
    // One entry for the resumption itself, none for sorties.
    expect(await audited()).toBe(before.audit + 1);
  });

  test("the progress of a working specialist is kept after its coordinator failed, unless a checkpoint is named", async () => {
    await startMission(bench.repository, 4);
    const checkpoint_id = await snapshot();
    await report(bench.repository, 1, { status: "in_progress" });
    now += LIMITS.specialist_active_ms;
    // The coordinator has failed; one specialist is silent since, the other one works.
    await completeSortie(bench.repository, 2);
    const newest = await bench.repository.latest("default", MISSION);
    await corrupt(newest.checkpoint!.metadata.checkpoint_id);
    const preview = await bench.repository.missions.previewResumption("default", "dispatch", {
      mission_id: MISSION,
    });
    expect(preview).toMatchObject({
      checkpoint_id,
      kept_sorties: ["srt-002"],
      changes: [{ sortie_id: "srt-001", status_from: "in_progress", status_to: "assigned" }],
    });
    expect(await resume()).toMatchObject({ checkpoint_id, kept_sorties: ["srt-002"], progress_percent: 25 });
    expect(await statuses()).toEqual(["assigned", "completed", "assigned", "assigned"]);
    expect(await resume({ checkpoint_id })).toMatchObject({ kept_sorties: [], progress_percent: 0 });
    expect(await statuses()).toEqual(["assigned", "assigned", "assigned", "assigned"]);
  });

  test("the progress of a specialist that is silent is restored", async () => {
    await startMission(bench.repository, 5);
    await snapshot();
    await completeSortie(bench.repository, 1);
    now += LIMITS.specialist_active_ms;
    expect(await resume()).toMatchObject({ kept_sorties: [] });
    expect(await statuses()).toEqual(Array(5).fill("assigned"));
  });

  test("002-edge corrupted checkpoint: the previous one is used, with a warning among the blockers", async () => {
    await startMission(bench.repository, 4);
    const previous = await snapshot();
    await report(bench.repository, 1, { status: "in_progress" });
    const damaged = await snapshot();
    await corrupt(damaged);
    const preview = await bench.repository.missions.previewResumption("default", "dispatch", {
      mission_id: MISSION,
      checkpoint_id: damaged,
    });
    expect(preview.recovery_context.blockers).toEqual([
      `Checkpoint ${damaged} is corrupt; the mission resumed from an earlier one`,
    ]);
    expect(await resume({ checkpoint_id: damaged })).toMatchObject({
      checkpoint_id: previous,
      passed_over: [damaged],
    });
    expect(await statuses()).toEqual(["assigned", "assigned", "assigned", "assigned"]);
  });

  test("002-edge schema version mismatch: an older one is migrated, then the mission resumes", async () => {
    await startMission(bench.repository, 1);
    await snapshot();
    const { checkpoint: made } = await bench.repository.latest("default", MISSION);
    const older = { ...input(), schema_version: "1.0", fleet: made!.fleet };
    const { checkpoint_id } = await create(bench.repository, { ...by, checkpoint: older });
    await completeSortie(bench.repository, 1);
    expect(await resume({ checkpoint_id })).toMatchObject({ checkpoint_id, restored: { sorties: 1 } });
    expect(await statuses()).toEqual(["assigned"]);
  });

  test("no checkpoint with a snapshot: the resumption is refused", async () => {
    await startMission(bench.repository, 1);
    await expect(resume()).rejects.toMatchObject({ code: "NOT_FOUND" });
    const { checkpoint_id } = await create(bench.repository, by);
    await expect(resume()).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(resume({ checkpoint_id })).rejects.toMatchObject({ code: "INVALID" });
    const { checkpoint_id: foreign } = await create(bench.repository, { task: "other" });
    await expect(resume({ checkpoint_id: foreign })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("a superseded coordinator and a specialist cannot resume the mission", async () => {
    await send(bench.repository, "take", {}, by);
    await startMission(bench.repository, 1, { fence: 1 });
    await send(bench.repository, "mission_checkpoint", {}, { ...by, fence: 1 });
    await send(bench.repository, "take", {}, { ...by, agent: "dispatch-2" });
    for (const sender of [
      { ...by, fence: 1 },
      { ...by, agent: "specialist-1" },
    ]) {
      await expect(send(bench.repository, "mission_resume", {}, sender)).rejects.toMatchObject({
        code: "FENCED",
      });
    }
    const next = { ...by, agent: "dispatch-2", fence: 2 };
    expect(await send(bench.repository, "mission_resume", {}, next)).toMatchObject({
      restored: { sorties: 1 },
    });
  });

  test("a preview changes nothing", async () => {
    await startMission(bench.repository, 4);
    const checkpoint_id = await snapshot();
    await completeSortie(bench.repository, 1);
    const before = await audited();
    const query = { mission_id: MISSION, checkpoint_id };
    const preview = await bench.repository.missions.previewResumption("default", "dispatch", query);
    expect(preview).toMatchObject({ checkpoint_id, restored: { sorties: 4, locks: 0, messages: 0 } });
    expect(await audited()).toBe(before);
  });

  test("US-307 a specialist queries its own recovery context, now and of a checkpoint", async () => {
    await startMission(bench.repository, 4);
    await report(bench.repository, 2, { status: "in_progress", progress_notes: "the routes are half done" });
    const checkpoint_id = await snapshot();
    await report(bench.repository, 2, { status: "blocked", progress_notes: "the API key is missing" });
    const ask = (query: object) =>
      bench.repository.missions.recoveryContext("default", { mission_id: MISSION, ...query });
    const own = { agent_id: "specialist-2" };
    expect(await ask({ ...own, checkpoint_id })).toMatchObject({
      last_action: "the routes are half done",
      next_steps: ['Complete "part 2" (srt-002, specialist-2)'],
      blockers: [],
      files_modified: ["src/part-2.ts"],
      mission_summary: "Implement user authentication",
    });
    expect(await ask(own)).toMatchObject({
      last_action: "the API key is missing",
      next_steps: ['Resolve what blocks "part 2" (srt-002, specialist-2)'],
      blockers: ['"part 2" (srt-002) is blocked: the API key is missing'],
    });
    expect(await ask({ agent_id: "stranger" })).toBeNull();
    expect((await ask({}))?.last_action).toBe('specialist-2 was blocked in "part 2": the API key is missing');
  });

  test("a mission of 1,000 sorties is recorded and resumes in one transaction", {
    timeout: 120_000,
  }, async () => {
    await startMission(bench.repository, 1_000);
    const checkpoint_id = await snapshot();
    const { checkpoint } = await bench.repository.latest("default", MISSION);
    expect(checkpoint?.fleet?.sorties).toHaveLength(1_000);
    // Most records differ: their specialists have begun.
    for (let n = 1; n <= 250; n += 1) await report(bench.repository, n, { status: "in_progress" });
    const answer = await resume({ checkpoint_id });
    expect(answer.restored.sorties).toBe(1_000);
    expect(new Set(await statuses())).toEqual(new Set(["assigned"]));
    expect(
      (await waitingEvents(bench.store, "sorties_restored")).map(
        ({ data }) => (data as { sortie_ids: string[] }).sortie_ids.length,
      ),
    ).toEqual([200, 50]);
    expect((await scrub(bench)).findings).toEqual([]);
  });
});
