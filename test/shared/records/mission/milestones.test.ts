/** Automatic checkpoints of missions (US-301) on real stores. */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import {
  completeSortie,
  MISSION,
  report,
  sortieId,
  startMission,
} from "../../../harness/records/missions.ts";
import { waitingEvents } from "../../../harness/records/outbox.ts";
import { ENGINES, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const by = { task: MISSION, agent: "dispatch" };

describe.each(ENGINES)("a mission on %s", (engine) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  const checkpoints = async () => {
    const query = { task_id: MISSION, limit: 100, order: "oldest" } as const;
    return (await bench.repository.history("default", query)).checkpoints;
  };
  const audit = async () => {
    const { entries } = await bench.repository.audit("default", {
      task_id: MISSION,
      from_seq: 1,
      limit: 500,
    });
    return entries.map(({ entry }) => JSON.parse(entry) as Record<string, unknown>);
  };

  test.each([
    [25, 1],
    [50, 2],
    [75, 3],
  ])(
    "US-301 a checkpoint is created when the mission reaches %s %% completion",
    async (milestone, completed) => {
      await startMission(bench.repository, 4);
      for (let n = 1; n < completed; n += 1) await completeSortie(bench.repository, n);
      const { checkpoint_id, progress_percent } = await completeSortie(bench.repository, completed);
      expect(progress_percent).toBe(milestone);
      const newest = (await checkpoints()).at(-1);
      expect(newest?.metadata).toMatchObject({
        checkpoint_id,
        agent_id: `specialist-${completed}`,
        trigger: { reason: "progress", details: `Reached ${milestone}% milestone` },
      });
      expect(newest?.execution_state.progress_percent).toBe(milestone);
    },
  );

  test("US-301 progress is completed sorties in percent of all, and each milestone has one checkpoint", async () => {
    await startMission(bench.repository, 12);
    const progress: number[] = [];
    for (let n = 1; n <= 12; n += 1)
      progress.push((await completeSortie(bench.repository, n)).progress_percent);
    expect(progress).toEqual([8, 17, 25, 33, 42, 50, 58, 67, 75, 83, 92, 100]);
    expect((await checkpoints()).map(({ fleet }) => fleet?.progress_percent)).toEqual([25, 50, 75]);
  });

  test("US-301 one step over two milestones writes one checkpoint, and both count as reached", async () => {
    await startMission(bench.repository, 2);
    await completeSortie(bench.repository, 1);
    expect((await checkpoints()).map(({ metadata }) => metadata.trigger.details)).toEqual([
      "Reached 50% milestone",
    ]);
    // The progress falls and rises again.
    await send(
      bench.repository,
      "sortie_add",
      { sorties: [{ title: "a", assigned_to: "specialist-3" }, { title: "b" }] },
      by,
    );
    const { progress_percent, checkpoint_id } = await completeSortie(bench.repository, 3);
    expect({ progress_percent, checkpoint_id }).toEqual({ progress_percent: 50, checkpoint_id: undefined });
    expect(await checkpoints()).toHaveLength(1);
  });

  test("US-301 a checkpoint has the states of all sorties and the recovery context", async () => {
    await startMission(bench.repository, 4);
    await report(bench.repository, 2, { status: "in_progress", progress_notes: "the routes are done" });
    await completeSortie(bench.repository, 1);
    const [checkpoint] = await checkpoints();
    expect(checkpoint?.fleet).toMatchObject({
      mission_id: MISSION,
      progress_percent: 25,
      active_locks: [],
      pending_messages: [],
      sorties: [
        { id: "srt-001", status: "completed", assigned_to: "specialist-1", files: ["src/part-1.ts"] },
        { id: "srt-002", status: "in_progress", progress_notes: "the routes are done" },
        { id: "srt-003", status: "assigned" },
        { id: "srt-004", status: "assigned" },
      ],
      recovery_context: {
        last_action: 'specialist-1 completed "part 1"',
        next_steps: [
          'Complete "part 2" (srt-002, specialist-2)',
          'Begin "part 3" (srt-003, specialist-3)',
          'Begin "part 4" (srt-004, specialist-4)',
        ],
        blockers: [],
        files_modified: ["src/part-1.ts", "src/part-2.ts"],
        mission_summary: "Implement user authentication",
      },
    });
  });

  test("US-301 fleet_checkpointed and checkpoint_created have the shape of seed 002", async () => {
    await startMission(bench.repository, 4);
    const { checkpoint_id } = await completeSortie(bench.repository, 1);
    const named = { checkpoint_id, mission_id: MISSION, trigger: "progress" };
    const [checkpointed] = await waitingEvents(bench.store, "fleet_checkpointed");
    const counts = { progress_percent: 25, sortie_count: 4, lock_count: 0, message_count: 0 };
    expect(checkpointed?.data).toEqual({ ...named, ...counts });
    const [created] = await waitingEvents(bench.store, "checkpoint_created");
    expect(created?.data).toEqual({ ...named, storage_locations: ["store"] });
  });

  test("checkpoint_created names the file too where the mirror is on", async () => {
    const { store, format } = bench;
    const copies = { read: async () => null };
    const mirrored = new CheckpointRepository({ store, format, finder: "test", now: Date.now, copies });
    await startMission(mirrored, 4);
    await completeSortie(mirrored, 1);
    const [created] = await waitingEvents(bench.store, "checkpoint_created");
    expect(created?.data).toMatchObject({ storage_locations: ["store", "file"] });
  });

  test("a repeated completion writes one checkpoint, and another status of a completed sortie is refused", async () => {
    await startMission(bench.repository, 4);
    await report(bench.repository, 1, { status: "in_progress" });
    const commandId = uuidv7();
    const first = await report(bench.repository, 1, { status: "completed" }, { commandId });
    const again = await report(bench.repository, 1, { status: "completed" }, { commandId });
    expect(again).toEqual({ ...first, replayed: true });
    expect(await checkpoints()).toHaveLength(1);
    await expect(report(bench.repository, 1, { status: "in_progress" })).rejects.toMatchObject({
      code: "CONFLICT",
    });
  });

  test("US-302 an error of a specialist is recorded with the trigger error and as a blocker", async () => {
    await startMission(bench.repository, 4);
    await report(bench.repository, 1, { status: "in_progress" });
    const error = { name: "HttpError", message: "503 from the API" };
    const answer = await send(
      bench.repository,
      "mission_checkpoint",
      { error },
      { task: MISSION, agent: "specialist-1" },
    );
    const [checkpoint] = await checkpoints();
    expect(checkpoint?.metadata.trigger).toEqual({ reason: "error", details: "HttpError: 503 from the API" });
    expect(checkpoint?.metadata.checkpoint_id).toBe(answer.checkpoint_id);
    expect(checkpoint?.fleet?.recovery_context?.blockers).toEqual(["HttpError: 503 from the API"]);
  });

  test("US-303 a manual checkpoint has its note, and its answer the counts", async () => {
    await startMission(bench.repository, 4);
    await report(bench.repository, 1, { status: "in_progress" });
    const answer = await send(bench.repository, "mission_checkpoint", { note: "before the refactoring" }, by);
    expect(answer).toMatchObject({
      progress_percent: 0,
      sorties: { assigned: 3, in_progress: 1, completed: 0 },
      lock_count: 0,
      message_count: 0,
    });
    const trigger = (await checkpoints())[0]?.metadata.trigger;
    expect(trigger).toEqual({ reason: "manual", details: "before the refactoring" });
  });

  test("the end of a mission writes its final checkpoint and ends the task", async () => {
    await startMission(bench.repository, 1);
    await expect(send(bench.repository, "mission_update", { status: "completed" }, by)).rejects.toMatchObject(
      {
        code: "CONFLICT",
      },
    );
    await completeSortie(bench.repository, 1);
    await send(bench.repository, "mission_update", { status: "completed" }, by);
    const final = (await checkpoints()).at(-1);
    expect(final?.metadata).toMatchObject({ status: "finalized", final_status: "succeeded" });
    expect((await bench.repository.task("default", MISSION)).state).toBe("completed");
    await expect(bench.repository.missions.find("default", "dispatch", {})).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
    await expect(
      send(bench.repository, "sortie_add", { sorties: [{ title: "late" }] }, by),
    ).rejects.toMatchObject({
      code: "CONFLICT",
    });
    expect((await scrub(bench)).findings).toEqual([]);
  });

  test("only the coordinator assigns, and a specialist changes its own sorties only", async () => {
    await send(bench.repository, "take", {}, by);
    await startMission(bench.repository, 4, { fence: 1 });
    const foreign = { sortie_id: sortieId(1), status: "in_progress" };
    const other = { task: MISSION, agent: "specialist-2" };
    await expect(send(bench.repository, "sortie_update", foreign, other)).rejects.toMatchObject({
      code: "FENCED",
    });
    await expect(report(bench.repository, 1, { assigned_to: "specialist-9" })).rejects.toMatchObject({
      code: "FENCED",
    });
    const error = { name: "E", message: "m" };
    const stranger = { task: MISSION, agent: "mallory" };
    await expect(send(bench.repository, "mission_checkpoint", { error }, stranger)).rejects.toMatchObject({
      code: "FENCED",
    });
    await expect(send(bench.repository, "mission_update", { status: "failed" }, other)).rejects.toMatchObject(
      { code: "FENCED" },
    );
    await completeSortie(bench.repository, 1);
    const task = await bench.repository.task("default", MISSION);
    const owner = await bench.repository.audit("default", { task_id: MISSION, from_seq: 1, limit: 1 });
    // The work of a specialist shows nothing about the life of the owner.
    expect(task.updated_at).toBe((JSON.parse(owner.entries[0]!.entry) as { at: string }).at);
    expect((await audit()).find(({ op }) => op === "create")).toMatchObject({ specialist: "yes" });
    expect((await scrub(bench)).findings).toEqual([]);
  });

  test("the secrets in texts are left out", async () => {
    await startMission(bench.repository, 1);
    const token = `ghp_${"a1B2".repeat(9)}`;
    await report(bench.repository, 1, { status: "in_progress", progress_notes: `the token is ${token}` });
    const { sorties } = await bench.repository.missions.sorties("default", {
      mission_id: MISSION,
      limit: 10,
    });
    expect(JSON.stringify(sorties)).not.toContain(token);
  });
});
