/** Locks of files in a mission (US-301, US-302, US-305, and the edge cases of seed 002) on real stores. */
import { uuidv7 } from "uuidv7";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import { type MissionSweep, stepMissionSweep } from "../../../../shared/records/mission/mission-sweep.ts";
import { MISSION, report, startMission } from "../../../harness/records/missions.ts";
import { waitingEvents } from "../../../harness/records/outbox.ts";
import {
  create,
  ENGINES,
  openTestRecords,
  type SendOptions,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";
import { noteFailure } from "../../../harness/records/recoveries.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const by = { task: MISSION, agent: "dispatch" };
const PATH = "src/auth.ts";

describe.each(ENGINES)("a lock on %s", (engine) => {
  let bench: TestRecords;
  let now: number;
  beforeEach(async () => {
    now = Date.now();
    bench = await openTestRecords(engine, () => {
      now += 1;
      return now;
    });
    await startMission(bench.repository, 3);
  });
  afterEach(async () => {
    try {
      expect((await scrub(bench)).findings).toEqual([]);
    } finally {
      await bench.close();
    }
  });

  const acquire = (agent: string, body: object = {}, options: SendOptions = {}) =>
    send(bench.repository, "lock_acquire", { path: PATH, ...body }, { task: MISSION, agent, ...options });
  const release = (agent: string, body: object = {}, options: SendOptions = {}) =>
    send(bench.repository, "lock_release", { path: PATH, ...body }, { task: MISSION, agent, ...options });
  const locks = async () => (await bench.repository.missions.locks("default", { mission_id: MISSION })).locks;
  const holders = async () => (await locks()).map(({ path, agent_id }) => [path, agent_id]);
  const snapshot = async () => (await send(bench.repository, "mission_checkpoint", {}, by)).checkpoint_id;
  const newest = async () => (await bench.repository.latest("default", MISSION)).checkpoint;
  const resume = (body: object = {}) => send(bench.repository, "mission_resume", { ...body }, by);
  const sweep = async () => {
    const parts: MissionSweep = {
      store: bench.store,
      incarnation: bench.format.incarnation,
      service: "writer",
      policies: DEFAULT_POLICIES,
      isMirrored: false,
      now: () => now,
      newId: uuidv7,
    };
    const step = await stepMissionSweep(parts);
    expect(step.skipped).toEqual([]);
    return step.changes;
  };
  const events = async (type: string) => (await waitingEvents(bench.store, type)).map(({ data }) => data);

  test("one agent holds a file, in any spelling of its path, and its fence grows with every acquisition", async () => {
    const first = await acquire("specialist-1", { path: "./src//x/../auth.ts" });
    expect(first).toMatchObject({ state: "held", path: PATH, held_by: "specialist-1" });
    await expect(acquire("specialist-2")).rejects.toMatchObject({
      code: "CONFLICT",
      details: { held_by: "specialist-1" },
    });
    expect(await acquire("specialist-1")).toMatchObject({ state: "held", fence: first.fence });
    await expect(release("specialist-2")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await release("specialist-1")).toMatchObject({ state: "released", held_by: null });
    const second = await acquire("specialist-2");
    expect(second.fence).toBeGreaterThan(first.fence as number);
  });

  test.each(["/etc/passwd", "../x", "a/../../x", "C:\\x", "a\u0000b", ".", ""])(
    "refuses the path %j",
    async (path) => {
      await expect(acquire("specialist-1", { path })).rejects.toMatchObject({ code: "INVALID" });
    },
  );

  test("only agents that take part lock files; a lock for a sortie belongs to its specialist", async () => {
    const fence = { fence: 1 };
    await send(bench.repository, "take", {}, by);
    await expect(acquire("stranger")).rejects.toMatchObject({ code: "FENCED" });
    await expect(acquire("specialist-1", { sortie_id: "srt-002" })).rejects.toMatchObject({ code: "FENCED" });
    await expect(acquire("specialist-1", { sortie_id: "srt-009" })).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
    expect(await acquire("specialist-1", { sortie_id: "srt-001" })).toMatchObject({ state: "held" });
    await expect(release("specialist-2", { force: true })).rejects.toMatchObject({ code: "FENCED" });
    expect(await release("dispatch", { force: true }, fence)).toMatchObject({ state: "released" });
    await acquire("specialist-1");
    expect(await release("human=olga", { force: true })).toMatchObject({ state: "released" });
    expect(await events("lock_released")).toMatchObject([{ reason: "forced" }, { reason: "forced" }]);
  });

  test("waiters get the file in their order, by its release and by its end", async () => {
    await acquire("specialist-1", { timeout_ms: 10_000 });
    expect(await acquire("specialist-2", { wait_ms: 60_000 })).toMatchObject({ state: "waiting" });
    expect(await acquire("specialist-3", { wait_ms: 60_000 })).toMatchObject({ state: "waiting" });
    expect((await locks())[0]?.waiters.map(({ agent_id }) => agent_id)).toEqual([
      "specialist-2",
      "specialist-3",
    ]);
    expect(await release("specialist-1")).toMatchObject({ held_by: "specialist-2" });
    expect(await acquire("specialist-2", { timeout_ms: 5_000 })).toMatchObject({ state: "held" });
    expect(await sweep()).toBe(0);
    now += 5_000;
    // The release and the acquisition.
    expect(await sweep()).toBe(2);
    expect(await holders()).toEqual([[PATH, "specialist-3"]]);
    expect(await events("lock_acquired")).toMatchObject(
      [1, 2, 3].map((n) => ({ agent_id: `specialist-${n}`, path: PATH })),
    );
  });

  test("a waiter that asks again keeps its place, or ends its wait", async () => {
    await acquire("specialist-1");
    const { lock_id } = await acquire("specialist-2", { wait_ms: 1_000 });
    await acquire("specialist-3", { wait_ms: 60_000 });
    expect(await acquire("specialist-2", { wait_ms: 60_000 })).toMatchObject({ state: "waiting", lock_id });
    now += 1_000;
    expect((await locks())[0]?.waiters.map(({ agent_id }) => agent_id)).toEqual([
      "specialist-2",
      "specialist-3",
    ]);
    expect(await acquire("specialist-2", { wait_ms: 0 })).toMatchObject({
      state: "timed_out",
      held_by: "specialist-1",
      checkpoint_id: expect.any(String),
    });
    expect(await release("specialist-1")).toMatchObject({ held_by: "specialist-3" });
  });

  test("a waiter that gives up its place does not get the file, which is no error of the mission", async () => {
    await acquire("specialist-1");
    const { lock_id } = await acquire("specialist-2", { wait_ms: 60_000 });
    await acquire("specialist-3", { wait_ms: 60_000 });
    expect(await release("specialist-2")).toMatchObject({
      ...{ state: "released", lock_id, held_by: "specialist-1" },
    });
    await expect(release("specialist-2")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await release("specialist-1")).toMatchObject({ held_by: "specialist-3" });
    expect((await bench.repository.latest("default", MISSION)).checkpoint).toBeNull();
  });

  test("the queue of a file is bounded", async () => {
    const sorties = Array.from({ length: LIMITS.lock_waiters_count_max + 1 }, (_, n) => ({
      title: "more",
      assigned_to: `more-${n}`,
    }));
    await send(bench.repository, "sortie_add", { sorties }, by);
    await acquire("specialist-1");
    for (const { assigned_to } of sorties.slice(1)) await acquire(assigned_to, { wait_ms: 60_000 });
    await expect(acquire("more-0", { wait_ms: 60_000 })).rejects.toMatchObject({ code: "CONFLICT" });
  });

  test("US-302 a wait without success writes an error checkpoint, once, whose blockers name it", async () => {
    await acquire("specialist-1");
    await acquire("specialist-2", { wait_ms: 1_000 });
    await acquire("specialist-3", { wait_ms: 1_000 });
    now += 2_000;
    const missed = await acquire("specialist-2", { wait_ms: 1_000 });
    expect(missed).toMatchObject({ state: "timed_out", held_by: "specialist-1" });
    const made = await newest();
    expect(made).toMatchObject({
      metadata: { checkpoint_id: missed.checkpoint_id, trigger: { reason: "error" } },
      fleet: {
        active_locks: [{ file: PATH, held_by: "specialist-1" }],
        recovery_context: {
          blockers: [2, 3].map(
            (n) => `specialist-${n} waited in vain for the lock on ${PATH}, which specialist-1 holds`,
          ),
        },
      },
    });
    expect(await sweep()).toBe(0);
    await acquire("specialist-2", { wait_ms: 1_000 });
    now += 1_000;
    expect(await sweep()).toBe(1);
    const swept = await newest();
    expect(swept?.metadata).toMatchObject({ trigger: { reason: "error" }, agent_id: "writer" });
    expect(swept?.metadata.checkpoint_id).not.toBe(made?.metadata.checkpoint_id);
  });

  test("US-301 a checkpoint includes the held locks, without those whose time is over", async () => {
    await acquire("specialist-1", {
      path: "a.ts",
      purpose: "routes",
      timeout_ms: 60_000,
      sortie_id: "srt-001",
    });
    await acquire("specialist-2", { path: "b.ts", timeout_ms: 1_000 });
    now += 1_000;
    expect(await send(bench.repository, "mission_checkpoint", {}, by)).toMatchObject({ lock_count: 1 });
    expect((await newest())?.fleet?.active_locks).toMatchObject([
      { file: "a.ts", held_by: "specialist-1", purpose: "routes", timeout_ms: 60_000, sortie_id: "srt-001" },
    ]);
  });

  test("a lock ends with its sortie, and with the mission", async () => {
    await acquire("specialist-1", { path: "a.ts", sortie_id: "srt-001" });
    await acquire("specialist-1", { path: "b.ts" });
    await report(bench.repository, 1, { status: "in_progress" });
    expect(await locks()).toHaveLength(2);
    await report(bench.repository, 1, { status: "failed" });
    expect(await holders()).toEqual([["b.ts", "specialist-1"]]);
    await send(bench.repository, "mission_update", { status: "cancelled" }, by);
    expect(await holders()).toEqual([]);
    expect(await events("lock_released")).toMatchObject([
      { path: "a.ts", reason: "sortie_ended" },
      { path: "b.ts", reason: "mission_ended" },
    ]);
  });

  test("the locks of a superseded coordinator are released, and a waiter gets them", async () => {
    await send(bench.repository, "take", {}, by);
    await acquire("dispatch", {}, { fence: 1 });
    await acquire("specialist-1", { wait_ms: 60_000 });
    await send(bench.repository, "take", {}, { ...by, agent: "dispatch-2" });
    expect(await sweep()).toBe(2);
    expect(await holders()).toEqual([[PATH, "specialist-1"]]);
    expect(await events("lock_released")).toMatchObject([{ agent_id: "dispatch", reason: "holder_lost" }]);
  });

  test("US-305 the locks of an agent that failed on its own task are released", async () => {
    await acquire("specialist-1");
    await acquire("specialist-2", { path: "kept.ts" });
    await send(bench.repository, "take", {}, { task: "own", agent: "specialist-1" });
    await create(bench.repository, { task: "own", agent: "specialist-1", fence: 1 });
    await noteFailure(bench.repository, "own");
    expect(await sweep()).toBe(1);
    expect(await holders()).toEqual([["kept.ts", "specialist-2"]]);
  });

  test("US-305 a resumption acquires valid locks again, and releases orphans", async () => {
    await acquire("specialist-1", { path: "a.ts", sortie_id: "srt-001" });
    await acquire("specialist-2", { path: "b.ts" });
    const checkpoint_id = await snapshot();
    await release("specialist-1", { path: "a.ts" });
    await send(bench.repository, "sortie_add", { sorties: [{ title: "late", assigned_to: "late-1" }] }, by);
    await acquire("late-1", { path: "orphan.ts" });
    const query = { mission_id: MISSION, checkpoint_id };
    const preview = await bench.repository.missions.previewResumption("default", "dispatch", query);
    expect(preview.restored).toEqual({ sorties: 3, locks: 2, messages: 0 });
    expect(await holders()).toHaveLength(2);
    const restored = { sorties: 3, locks: 2, messages: 0 };
    expect(await resume({ checkpoint_id })).toMatchObject({ restored, blockers: [] });
    const after = await locks();
    expect(await holders()).toEqual([
      ["a.ts", "specialist-1"],
      ["b.ts", "specialist-2"],
    ]);
    expect(await resume({ checkpoint_id })).toMatchObject({ restored });
    expect(await locks()).toEqual(after);
    expect(await events("lock_released")).toMatchObject([
      { path: "a.ts", reason: "released" },
      { path: "orphan.ts", reason: "orphaned" },
    ]);
    expect(await events("fleet_recovered")).toMatchObject([{ recovered_locks: 2 }, { recovered_locks: 2 }]);
  });

  test("002-edge lock expired during the recovery: a blocker, and it is acquired again", async () => {
    await acquire("specialist-1", { timeout_ms: 1_000 });
    await snapshot();
    now += LIMITS.specialist_active_ms;
    const blockers = [`The lock of specialist-1 on ${PATH} had expired; it was acquired again`];
    const preview = await bench.repository.missions.previewResumption("default", "dispatch", {
      mission_id: MISSION,
    });
    expect(preview.recovery_context.blockers).toEqual(blockers);
    expect(await resume()).toMatchObject({ restored: { locks: 1 }, blockers });
    expect(await holders()).toEqual([[PATH, "specialist-1"]]);
  });

  test("002-edge lock held by another agent: a blocker, and the other agent keeps it", async () => {
    await acquire("specialist-1");
    await snapshot();
    await release("specialist-1");
    await acquire("specialist-2");
    const { blockers, restored } = await resume();
    expect(restored.locks).toBe(0);
    expect(blockers).toEqual([
      expect.stringMatching(`^The lock on ${PATH}, which specialist-1 held, is held by specialist-2 until `),
    ]);
    expect(await holders()).toEqual([[PATH, "specialist-2"]]);
  });
});
