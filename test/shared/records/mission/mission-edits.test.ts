/** Edits of the records of a mission, well-formed and with valid check values, which the scrub finds (guarantee 13). */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type LockTable, lockDueMs } from "../../../../shared/lifecycle/mission/locks.ts";
import type { MissionRecord } from "../../../../shared/lifecycle/mission/mission.ts";
import type { SortieRecord } from "../../../../shared/lifecycle/mission/sortie.ts";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { systemKeys, tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { OF_MISSION } from "../../../../shared/records/mission/mission-due.ts";
import { encodeRecord, openRecord } from "../../../../shared/records/mission/sealed-record.ts";
import type { Bytes, Tx } from "../../../../shared/store/store.ts";
import { completeSortie, MISSION, report, startMission } from "../../../harness/records/missions.ts";
import { create, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";

const WRITE = { label: "test", deadlineMs: 5_000, onUnknown: "unsafe" } as const;
const keys = tenantKeys("default");
const MISSION_KEY = keys.mission(MISSION);
const SORTIE_KEY = keys.sortie(MISSION, "srt-002");

let bench: TestRecords;
beforeEach(async () => {
  bench = await openTestRecords("memory");
  await startMission(bench.repository, 4);
  await completeSortie(bench.repository, 1);
  await report(bench.repository, 2, { status: "in_progress", progress_notes: "half done" });
});
afterEach(() => bench.close());

const transact = <T>(change: (tx: Tx) => Promise<T>) => bench.store.transact(WRITE, change);
const get = async (key: Bytes) => (await transact((tx) => tx.get(key))).value as Bytes;

/** The findings of a pass in large steps, which are the same in tiny steps. */
async function found(): Promise<string[]> {
  const passes = [await scrub(bench), await scrub(bench, { stepBytes: 1_000 })];
  const [large, tiny] = passes.map(({ findings }) =>
    findings.map(({ kind, details }) => `${kind}: ${details}`).sort(),
  );
  expect(tiny).toEqual(large);
  return large!;
}

/** Changes a record and keeps the number of its entry. */
async function edit<T extends object>(key: Bytes, change: Partial<T>): Promise<void> {
  const { value, auditSeq } = openRecord<T>(await get(key));
  await transact(async (tx) => tx.set(key, encodeRecord({ ...value, ...change }, auditSeq)));
}

test("a mission without edits has no findings", async () => {
  expect(await found()).toEqual([]);
});

test.each<[member: string, change: Partial<SortieRecord>]>([
  ["status", { status: "completed" }],
  ["specialist", { assigned_to: "mallory" }],
  ["files", { files: ["src/other.ts"] }],
  ["notes", { progress_notes: "all done" }],
])("finds another %s in a sortie", async (_member, change) => {
  await edit<SortieRecord>(SORTIE_KEY, change);
  const findings = await found();
  expect(findings).toContain("mission: sortie/srt-002 differs from the trail");
  expect(findings).toHaveLength(2);
});

test.each<[member: string, change: Partial<MissionRecord>]>([
  ["title", { title: "Remove user authentication" }],
  ["milestone", { milestone: 75 }],
])("finds another %s in a mission", async (_member, change) => {
  await edit<MissionRecord>(MISSION_KEY, change);
  expect(await found()).toContain("mission: mission differs from the trail");
});

test("finds a lost mission, a lost sortie and a lost entry in the index of active missions", async () => {
  await transact(async (tx) => {
    tx.clear(MISSION_KEY);
    tx.clear(SORTIE_KEY);
  });
  expect(await found()).toEqual([
    "mission: mission is lost",
    "mission: sortie/srt-002 is lost",
    "mission: the task is among the missions that are active, and is none",
  ]);
});

test("finds a mission that is missing in the index of active missions", async () => {
  await transact(async (tx) => tx.clear(keys.activeMission(MISSION)));
  expect(await found()).toEqual([
    "mission: the mission is in_progress, and is not among those that are active",
  ]);
});

const hold = (path: string, agent: string, more: object = {}) =>
  send(bench.repository, "lock_acquire", { path, ...more }, { task: MISSION, agent });
const nothing = new Uint8Array(0);
const tableOf = async () => openRecord<LockTable>(await get(keys.missionLocks(MISSION))).value;

test("finds locks that are missing in the indexes by agent and by time", async () => {
  await hold("a.ts", "specialist-2");
  await hold("a.ts", "specialist-3", { wait_ms: 60_000 });
  expect(await found()).toEqual([]);
  const due = lockDueMs(await tableOf()) as number;
  await transact(async (tx) => {
    tx.clear(keys.agentLocks("specialist-3", MISSION));
    tx.clear(systemKeys.missionDue(due, "default", MISSION, OF_MISSION));
  });
  expect(await found()).toEqual([
    "mission: specialist-3 is not among the agents that hold files of the mission",
    "mission: the mission is not among those whose locks end",
  ]);
});

test("finds entries in the indexes of locks without their locks", async () => {
  await hold("a.ts", "specialist-2");
  const due = lockDueMs(await tableOf()) as number;
  await transact(async (tx) => {
    tx.set(keys.agentLocks("mallory", MISSION), nothing);
    tx.set(keys.agentLocks("specialist-2", "no-mission"), nothing);
    tx.set(systemKeys.missionDue(due + 1, "default", MISSION, OF_MISSION), nothing);
    tx.set(systemKeys.missionDue(due, "default", "no-mission", OF_MISSION), nothing);
    // The sweep removes it: the locks of an agent that failed may have ended before.
    tx.set(systemKeys.missionDue(due, "default", MISSION, "specialist-1"), nothing);
  });
  const untimely = "the mission is among those whose locks end, and none of its locks ends then";
  expect(await found()).toEqual([
    "mission: mallory is among the agents that hold files of the mission, and holds none",
    "mission: specialist-2 is among the agents that hold files of the mission, and holds none",
    `mission: ${untimely}`,
    `mission: ${untimely}`,
  ]);
});

test("finds records of missions under the name of a task that does not exist", async () => {
  await hold("a.ts", "specialist-2");
  const rows = {
    missions: [keys.mission("ghost"), await get(MISSION_KEY)],
    active_missions: [keys.activeMission("ghost"), nothing],
    sorties: [keys.sortie("ghost", "srt-002"), await get(SORTIE_KEY)],
    mission_locks: [keys.missionLocks("ghost"), await get(keys.missionLocks(MISSION))],
  } as const;
  await transact(async (tx) => {
    for (const [key, value] of Object.values(rows)) tx.set(key, value);
  });
  const names = Object.keys(rows).sort();
  expect(await found()).toEqual(names.map((name) => `mission: a record of ${name} belongs to no task`));
});

test("finds a task among the active missions that is none", async () => {
  await create(bench.repository, { task: "plain" });
  await transact(async (tx) => tx.set(keys.activeMission("plain"), nothing));
  expect(await found()).toEqual(["mission: the task is among the missions that are active, and is none"]);
});

test("finds a sortie from an older copy of the store", async () => {
  const older = await get(SORTIE_KEY);
  await report(bench.repository, 2, { status: "completed" });
  await transact(async (tx) => tx.set(SORTIE_KEY, older));
  expect(await found()).toEqual(["mission: sortie/srt-002 is older than the trail"]);
});

test("finds an inserted sortie", async () => {
  const { value, auditSeq } = openRecord<SortieRecord>(await get(SORTIE_KEY));
  const inserted = { ...value, sortie_id: "srt-009" };
  await transact(async (tx) => tx.set(keys.sortie(MISSION, "srt-009"), encodeRecord(inserted, auditSeq)));
  expect(await found()).toEqual([`mission: sortie/srt-009 names entry ${auditSeq}, which does not state it`]);
});

test("finds a record that cannot be read, and queries refuse it", async () => {
  await transact(async (tx) => tx.set(SORTIE_KEY, encodeChecked("nothing")));
  expect(await found()).toEqual(["mission: sortie/srt-002 cannot be read"]);
  const query = { mission_id: MISSION, limit: 10 };
  await expect(bench.repository.missions.sorties("default", query)).rejects.toMatchObject({
    code: "CORRUPT",
  });
});
