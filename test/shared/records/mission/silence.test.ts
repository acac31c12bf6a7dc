/** The detection of silent missions (US-304) on real stores: marks, their events, and the end of a mark. */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import { stepMissionSweep } from "../../../../shared/records/mission/mission-sweep.ts";
import { findSilent, markSilent, type SilenceSearch } from "../../../../shared/records/mission/silence.ts";
import { completeSortie, MISSION, report, startMission } from "../../../harness/records/missions.ts";
import { waitingEvents } from "../../../harness/records/outbox.ts";
import { ENGINES, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const by = { task: MISSION, agent: "dispatch" };
const MINUTE_MS = 60_000;

describe.each(ENGINES)("a silent mission on %s", (engine) => {
  let bench: TestRecords;
  let nowMs: number;
  beforeEach(async () => {
    nowMs = Date.now();
    bench = await openTestRecords(engine, () => nowMs);
  });
  afterEach(() => bench.close());

  const search = (): SilenceSearch => ({
    ...{ store: bench.store, incarnation: bench.format.incarnation, service: "watchdog" },
    now: () => nowMs,
    silenceMs: 5 * MINUTE_MS,
    guard: async () => {},
  });
  const found = async (): Promise<string[]> => {
    const names: string[] = [];
    for await (const slice of findSilent(search())) names.push(...slice.map(({ mission }) => mission));
    return names;
  };
  const mark = () => markSilent(search(), { tenant: "default", mission: MISSION });
  const recoverable = async () => {
    const query = { active: false, recoverable: true, limit: 10 };
    return (await bench.repository.missions.list("default", query)).missions;
  };
  const audited = async () => (await bench.repository.task("default", MISSION)).audit_seq;

  test("US-304 a mission in progress without activity for five minutes is a candidate for a recovery", async () => {
    await startMission(bench.repository, 4);
    const { checkpoint_id } = await completeSortie(bench.repository, 1);
    nowMs += 5 * MINUTE_MS;
    expect(await found()).toEqual([]);
    expect(await mark()).toBeNull();
    nowMs += 1;
    expect(await found()).toEqual([MISSION]);
    expect(await mark()).toMatchObject({ checkpoint_id });
    expect(await recoverable()).toMatchObject([{ mission_id: MISSION, silence: { checkpoint_id } }]);
    expect((await scrub(bench, { now: () => nowMs })).findings).toEqual([]);
  });

  test("US-304 context_compacted and recovery_available have the shape of seed 002, once per silence", async () => {
    await startMission(bench.repository, 4);
    const { checkpoint_id, committed_at } = await completeSortie(bench.repository, 1);
    nowMs += 6 * MINUTE_MS;
    await mark();
    const before = await audited();
    expect(await mark()).toBeNull();
    nowMs += 60 * MINUTE_MS;
    expect(await found()).toEqual([]);
    expect(await mark()).toBeNull();
    expect(await audited()).toBe(before);
    const compacted = await waitingEvents(bench.store, "context_compacted");
    expect(compacted.map(({ data }) => data)).toEqual([
      {
        mission_id: MISSION,
        last_activity_at: committed_at,
        inactivity_duration_ms: 6 * MINUTE_MS,
        checkpoint_available: true,
        checkpoint_id,
      },
    ]);
    const available = await waitingEvents(bench.store, "recovery_available");
    expect(available.map(({ data }) => data)).toEqual([
      {
        mission_id: MISSION,
        checkpoint: { id: checkpoint_id, timestamp: committed_at, trigger: "progress", progress_percent: 25 },
        message: `Found checkpoint from ${committed_at}. Resume?`,
      },
    ]);
  });

  test.each([
    ["a report of a specialist", () => report(bench.repository, 2, { status: "in_progress" })],
    ["a checkpoint of the coordinator", () => send(bench.repository, "mission_checkpoint", {}, by)],
    ["a resumption", () => send(bench.repository, "mission_resume", {}, by)],
  ])("activity ends the mark, and the next silence is found: %s", async (_activity, act) => {
    await startMission(bench.repository, 4);
    await completeSortie(bench.repository, 1);
    nowMs += 6 * MINUTE_MS;
    await mark();
    nowMs += MINUTE_MS;
    await act();
    expect(await recoverable()).toEqual([]);
    nowMs += 6 * MINUTE_MS;
    expect(await found()).toEqual([MISSION]);
    await mark();
    expect(await waitingEvents(bench.store, "context_compacted")).toHaveLength(2);
    expect(await recoverable()).toHaveLength(1);
  });

  test("US-304 a reported compaction is recorded with its trigger, and the mission can be resumed at once, once", async () => {
    await startMission(bench.repository, 4);
    await completeSortie(bench.repository, 1);
    nowMs += 1_000;
    const report = () =>
      send(
        bench.repository,
        "mission_checkpoint",
        { compaction: true, note: "claude-code compacts the context of specialist-2" },
        { task: MISSION, agent: "specialist-2", commandId },
      );
    const commandId = uuidv7();
    const { committed_at } = await report();
    expect(await report()).toMatchObject({ replayed: true });
    const { checkpoint } = await bench.repository.latest("default", MISSION);
    expect(checkpoint?.metadata).toMatchObject({
      checkpoint_id: commandId,
      trigger: { reason: "compaction" },
    });
    expect(await recoverable()).toMatchObject([{ silence: { checkpoint_id: commandId } }]);
    expect(await found()).toEqual([]);
    expect((await waitingEvents(bench.store, "context_compacted")).map(({ data }) => data)).toEqual([
      {
        mission_id: MISSION,
        last_activity_at: new Date(nowMs - 1_000).toISOString(),
        inactivity_duration_ms: 1_000,
        checkpoint_available: true,
        checkpoint_id: commandId,
      },
    ]);
    const [available] = await waitingEvents(bench.store, "recovery_available");
    expect(available?.data).toMatchObject({ checkpoint: { id: commandId, trigger: "compaction" } });
    expect(available?.data).toMatchObject({ message: `Found checkpoint from ${committed_at}. Resume?` });
    nowMs += 1;
    await send(bench.repository, "mission_resume", {}, by);
    expect(await recoverable()).toEqual([]);
    expect((await scrub(bench, { now: () => nowMs })).findings).toEqual([]);
  });

  test("only an agent of the mission reports a compaction, and not together with an error", async () => {
    await send(bench.repository, "take", {}, by);
    await startMission(bench.repository, 2, { fence: 1 });
    const stranger = { task: MISSION, agent: "stranger" };
    const reported = (body: object, options: object) =>
      send(
        bench.repository,
        "mission_checkpoint",
        { compaction: true, ...body },
        { task: MISSION, ...options },
      );
    await expect(reported({}, stranger)).rejects.toMatchObject({ code: "FENCED" });
    const error = { name: "Error", message: "no" };
    await expect(reported({ error }, { ...by, fence: 1 })).rejects.toMatchObject({ code: "INVALID" });
    expect(await reported({}, { ...by, fence: 1 })).toMatchObject({ mission_status: "in_progress" });
  });

  test("the missions of an agent: those that it coordinates, and those with an open sortie of it", async () => {
    await send(bench.repository, "take", {}, by);
    await startMission(bench.repository, 2, { fence: 1 });
    const of = async (participant: string) => {
      const query = { active: true, recoverable: false, participant, limit: 10 };
      return (await bench.repository.missions.list("default", query)).missions.length;
    };
    expect(await Promise.all(["dispatch", "specialist-1", "stranger"].map(of))).toEqual([1, 1, 0]);
    await completeSortie(bench.repository, 1);
    expect(await of("specialist-1")).toBe(0);
  });

  test("an agent that only renews its lock is active, also for a resumption", async () => {
    await startMission(bench.repository, 4);
    const lock = { path: "src/part-2.ts", timeout_ms: 10 * MINUTE_MS };
    const renew = () => send(bench.repository, "lock_renew", { path: lock.path }, specialist);
    const specialist = { task: MISSION, agent: "specialist-2" };
    await send(bench.repository, "lock_acquire", lock, specialist);
    await completeSortie(bench.repository, 1);
    nowMs += 1;
    await report(bench.repository, 2, { status: "in_progress" });
    for (let minutes = 0; minutes < 12; minutes += 4) {
      nowMs += 4 * MINUTE_MS;
      await renew();
    }
    expect(await found()).toEqual([]);
    expect(await mark()).toBeNull();
    const query = { mission_id: MISSION };
    expect(await bench.repository.missions.find("default", "dispatch", query)).toMatchObject({
      last_activity_at: new Date(nowMs).toISOString(),
    });
    expect(await send(bench.repository, "mission_resume", {}, by)).toMatchObject({
      kept_sorties: ["srt-002"],
    });
    nowMs += 6 * MINUTE_MS;
    expect(await mark()).toMatchObject({ checkpoint_id: expect.any(String) });
    await renew();
    expect(await recoverable()).toEqual([]);
    expect((await scrub(bench, { now: () => nowMs })).findings).toEqual([]);
  });

  test("what a service ends is no activity", async () => {
    await startMission(bench.repository, 4);
    await send(bench.repository, "lock_acquire", { path: "a.ts", timeout_ms: 1_000 }, { ...by });
    nowMs += 6 * MINUTE_MS;
    const sweep = { ...{ store: bench.store, incarnation: bench.format.incarnation }, service: "writer" };
    const own = { policies: DEFAULT_POLICIES, isMirrored: false, now: () => nowMs, newId: uuidv7 };
    expect(await stepMissionSweep({ ...sweep, ...own })).toMatchObject({ changes: 1 });
    expect(await found()).toEqual([MISSION]);
    expect((await scrub(bench, { now: () => nowMs })).findings).toEqual([]);
  });

  test("a mission without a checkpoint is silent, and cannot be resumed", async () => {
    await startMission(bench.repository, 2);
    nowMs += 6 * MINUTE_MS;
    expect(await mark()).toMatchObject({ checkpoint_id: null });
    const [{ data } = { data: {} }] = await waitingEvents(bench.store, "context_compacted");
    expect(data).toMatchObject({ checkpoint_available: false });
    expect(data).not.toHaveProperty("checkpoint_id");
    expect(await waitingEvents(bench.store, "recovery_available")).toEqual([]);
    expect(await recoverable()).toEqual([]);
  });

  test("a mission whose newest checkpoint has all sorties complete is no candidate", async () => {
    await startMission(bench.repository, 1);
    await completeSortie(bench.repository, 1);
    await send(bench.repository, "mission_checkpoint", {}, by);
    nowMs += 6 * MINUTE_MS;
    expect(await mark()).toMatchObject({ checkpoint_id: null });
    expect(await waitingEvents(bench.store, "recovery_available")).toEqual([]);
  });

  test("missions that are pending or have ended are not silent, and those of all tenants are found", async () => {
    const start = (task: string, status: string, tenant?: string) =>
      send(bench.repository, "mission_start", { title: task, status }, { task, ...(tenant && { tenant }) });
    await start("msn-pending", "pending");
    await start("msn-ended", "in_progress");
    await send(bench.repository, "mission_update", { status: "cancelled" }, { task: "msn-ended" });
    await start("msn-open", "in_progress");
    await start("msn-acme", "in_progress", "acme");
    nowMs += 6 * MINUTE_MS;
    expect(await found()).toEqual(["msn-open", "msn-acme"]);
  });

  test("an instance that lost its lease marks nothing", async () => {
    await startMission(bench.repository, 2);
    nowMs += 6 * MINUTE_MS;
    const before = await audited();
    const refused = { ...search(), guard: () => Promise.reject(new Error("the lease was lost")) };
    const place = { tenant: "default", mission: MISSION };
    await expect(markSilent(refused, place)).rejects.toThrow("the lease was lost");
    expect(await audited()).toBe(before);
  });
});
