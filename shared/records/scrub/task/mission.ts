/**
 * Verifies that each record of a mission is stated by the audit entry that it names, so that an inserted record is
 * found, and that the mission is in the index of active missions as long as it has not ended.
 */
import { endOfMission, type MissionRecord } from "../../../lifecycle/mission/mission.ts";
import type { Bytes } from "../../../store/store.ts";
import { after, endingName } from "../../kv/keyspace.ts";
import {
  LOCKS_NAME,
  MISSION_NAME,
  openRecord,
  recordHash,
  sortieName,
  statedRecord,
} from "../../mission/sealed-record.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "../trail/entries.ts";
import { readable } from "./head.ts";
import type { LinksAt } from "./links.ts";

/** The number of sorties in one read. */
const SLICE = 64;

/** Returns where the next step continues; null: all records are verified. */
export async function verifyMission(scrub: TaskScrub, from: LinksAt): Promise<LinksAt | null> {
  const { reader, keys, task, step } = scrub;
  if (from.after === null) await verifyMissionRecord(scrub);
  const { begin, end } = keys.sorties(task);
  for (let at = from; ; ) {
    const range = { begin: at.after === null ? begin : after(at.after), end };
    const { rows, more } = await reader.getRange(range, { limit: SLICE });
    await verifyStated(
      scrub,
      rows.map(({ key, value }) => ({ name: sortieName(endingName(key)), value })),
    );
    const last = rows.at(-1);
    if (!more || last === undefined) return null;
    at = { after: last.key };
    await step.yieldToOthers();
    if (step.isSpent) return at;
  }
}

async function verifyMissionRecord(scrub: TaskScrub): Promise<void> {
  const { reader, keys, task } = scrub;
  const [value, active, locks] = await reader.getMany([
    keys.mission(task),
    keys.activeMission(task),
    keys.missionLocks(task),
  ]);
  if (locks !== undefined) await verifyStated(scrub, [{ name: LOCKS_NAME, value: locks }]);
  if (value === undefined) return;
  await verifyStated(scrub, [{ name: MISSION_NAME, value }]);
  const mission = readable(() => openRecord<MissionRecord>(value).value);
  if (mission === null || (endOfMission(mission.status) === null) === (active !== undefined)) return;
  const is = active === undefined ? "is not" : "is";
  scrub.note(ofTask("mission", `the mission is ${mission.status}, and ${is} among those that are active`));
}

async function verifyStated(
  scrub: TaskScrub,
  records: readonly { readonly name: string; readonly value: Bytes }[],
): Promise<void> {
  const { reader, keys, task } = scrub;
  // An unreadable record is found by the entry that states it.
  const opened = records.flatMap(({ name, value }) => {
    const read = readable(() => openRecord(value));
    return read === null ? [] : [{ name, value, seq: read.auditSeq }];
  });
  const entries = await reader.getMany(opened.map(({ seq }) => keys.audit(task, Math.max(0, seq))));
  for (const [i, { name, value, seq }] of opened.entries()) {
    const stated = readEntry(entries[i])?.facts?.records;
    const text = statedRecord(recordHash(value), name);
    if (Array.isArray(stated) && stated.includes(text)) continue;
    const details = `${name} names entry ${seq}, which does not state it`;
    scrub.step.noteOnce(scrub.tenant, task, ofTask("mission", details));
  }
}
