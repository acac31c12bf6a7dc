/**
 * Verifies that each record of a mission is stated by the audit entry that it names, so that an inserted record is
 * found, that the mission is in the index of active missions as long as it has not ended, that its locks are in the
 * indexes by agent and by time, and its messages in that by time.
 */

import { isImporting } from "../../../lifecycle/import/import.ts";
import { type LockTable, lockAgents, lockDueMs } from "../../../lifecycle/mission/locks.ts";
import { type MailboxRecord, mailboxDueMs } from "../../../lifecycle/mission/mailbox.ts";
import { endOfMission, type MissionRecord } from "../../../lifecycle/mission/mission.ts";
import { statedRecord } from "../../../lifecycle/trail/stated-record.ts";
import type { Bytes, KeyRange } from "../../../store/store.ts";
import { readable } from "../../kv/codec.ts";
import { after, endingName, systemKeys } from "../../kv/keyspace.ts";
import { OF_MESSAGES, OF_MISSION } from "../../mission/mission-due.ts";
import {
  LOCKS_NAME,
  MISSION_NAME,
  mailboxRecordName,
  openRecord,
  recordHash,
  sortieName,
} from "../../mission/sealed-record.ts";
import { decodeHead } from "../../task/head.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "../trail/entries.ts";
import type { LinksAt } from "./links.ts";

/** The number of records in one read. */
const SLICE = 64;

/** Returns where the next step continues; null: all records are verified. */
export async function verifyMission(scrub: TaskScrub, from: LinksAt): Promise<LinksAt | null> {
  const { keys, task } = scrub;
  if (from.after === null) await verifyMissionRecord(scrub);
  // In the order of their keys.
  const parts = [
    { range: keys.mailboxRecords(task), nameOf: mailboxRecordName },
    { range: keys.sorties(task), nameOf: (key: Bytes) => sortieName(endingName(key)) },
  ];
  for (const { range, nameOf } of parts) {
    if (from.after !== null && Buffer.compare(from.after, range.end) >= 0) continue;
    const isInside = from.after !== null && Buffer.compare(from.after, range.begin) >= 0;
    const left = await verifyRecords(scrub, range, isInside ? from : { after: null }, nameOf);
    if (left !== null) return left;
  }
  return null;
}

async function verifyRecords(
  scrub: TaskScrub,
  { begin, end }: KeyRange,
  from: LinksAt,
  nameOf: (key: Bytes) => string,
): Promise<LinksAt | null> {
  const { reader, step } = scrub;
  for (let at = from; ; ) {
    const range = { begin: at.after === null ? begin : after(at.after), end };
    const { rows, more } = await reader.getRange(range, { limit: SLICE });
    await verifyStated(
      scrub,
      rows.map(({ key, value }) => ({ name: nameOf(key), value })),
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
  const [value, active, locks, mailbox] = await reader.getMany([
    keys.mission(task),
    keys.activeMission(task),
    keys.missionLocks(task),
    keys.mailbox(task),
  ]);
  if (mailbox !== undefined) await verifyMailboxIndex(scrub, mailbox);
  if (locks !== undefined) {
    await verifyStated(scrub, [{ name: LOCKS_NAME, value: locks }]);
    await verifyLockIndexes(scrub, locks);
  }
  if (value === undefined) {
    if (active !== undefined)
      scrub.note(ofTask("mission", "the task is among the missions that are active, and is none"));
    return;
  }
  await verifyStated(scrub, [{ name: MISSION_NAME, value }]);
  const mission = readable(() => openRecord<MissionRecord>(value).value);
  if (mission === null || (endOfMission(mission.status) === null) === (active !== undefined)) return;
  if (active === undefined && (await isBeingImported(scrub))) return;
  const is = active === undefined ? "is not" : "is";
  scrub.note(ofTask("mission", `the mission is ${mission.status}, and ${is} among those that are active`));
}

/** The end of its import makes a mission active, and gives its messages new deadlines. */
async function isBeingImported({ reader, keys, task }: TaskScrub): Promise<boolean> {
  const value = await reader.get(keys.task(task));
  const head = value === undefined ? null : readable(() => decodeHead(value));
  return head !== null && isImporting(head);
}

/** Without these entries, no sweep ends the locks, and those of a failed agent stay. */
async function verifyLockIndexes(scrub: TaskScrub, value: Bytes): Promise<void> {
  const { reader, keys, tenant, task } = scrub;
  const table = readable(() => openRecord<LockTable>(value).value);
  if (table === null) return;
  const agents = [...lockAgents(table)];
  const due = lockDueMs(table);
  const [inTime, ...byAgent] = await reader.getMany([
    systemKeys.missionDue(due ?? 0, tenant, task, OF_MISSION),
    ...agents.map((agent) => keys.agentLocks(agent, task)),
  ]);
  if (due !== null && inTime === undefined)
    scrub.note(ofTask("mission", "the mission is not among those whose locks end"));
  for (const [i, agent] of agents.entries()) {
    if (byAgent[i] !== undefined) continue;
    scrub.note(ofTask("mission", `${agent} is not among the agents that hold files of the mission`));
  }
}

/** Without this entry, no sweep ends the messages at their deadlines. */
async function verifyMailboxIndex(scrub: TaskScrub, value: Bytes): Promise<void> {
  const { reader, tenant, task } = scrub;
  const mailbox = readable(() => openRecord<MailboxRecord>(value).value);
  const due = mailbox === null ? null : mailboxDueMs(mailbox);
  if (due === null) return;
  if ((await reader.get(systemKeys.missionDue(due, tenant, task, OF_MESSAGES))) !== undefined) return;
  if (await isBeingImported(scrub)) return;
  scrub.note(ofTask("mission", "the mission is not among those whose messages fail"));
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
