/**
 * Verifies the rows of missions that no walk over tasks meets: those of a task that does not exist, and the entries of
 * the indexes of locks, by agent and by time, and of messages, whose mission says something else. The walk over the
 * tasks verifies the other direction.
 */

import { type LockTable, lockAgents, lockDueMs, NO_LOCKS } from "../../lifecycle/mission/locks.ts";
import { EMPTY_MAILBOX, type MailboxRecord, mailboxDueMs } from "../../lifecycle/mission/mailbox.ts";
import type { Bytes, Reader } from "../../store/store.ts";
import { readable } from "../kv/codec.ts";
import { after, parseTask, systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { MISSION_SUBSPACES, parseAgentLock, parseMissionDue } from "../kv/mission-keys.ts";
import { lostAgent, OF_MISSION } from "../mission/mission-due.ts";
import { openRecord } from "../mission/sealed-record.ts";
import { ofTask, type ScrubStep } from "./scrub-reader.ts";

/** The number of rows in one read. */
const SLICE = 64;

export interface MissionRowsAt {
  /** The position in {@link MISSION_SUBSPACES}. */
  readonly subspace: number;
  /** The last verified row of the subspace; null: there is none. */
  readonly after: Bytes | null;
}

export const MISSION_ROWS_START: MissionRowsAt = { subspace: 0, after: null };

/** Returns where the next call continues; null: all rows of the tenant are verified. */
export async function verifyMissionRows(
  step: ScrubStep,
  tenant: string,
  { subspace: number, after: from }: MissionRowsAt,
): Promise<MissionRowsAt | null> {
  const subspace = MISSION_SUBSPACES[number];
  if (subspace === undefined) return null;
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.missionRows(subspace);
  const range = { begin: from === null ? begin : after(from), end };
  const { rows, more } = await step.reader.getRange(range, { limit: SLICE });
  if (subspace === "agent_locks") {
    const entries = rows.flatMap(({ key }) => readable(() => parseAgentLock(key)) ?? []);
    const tables = await locksOf(
      step,
      entries.map(({ task }) => ({ tenant, task })),
    );
    for (const [i, { agent, task }] of entries.entries()) {
      const table = tables[i];
      if (table === undefined || lockAgents(table).has(agent)) continue;
      const details = `${agent} is among the agents that hold files of the mission, and holds none`;
      step.noteOnce(tenant, task, ofTask("mission", details));
    }
  } else {
    const tasks = [...new Set(rows.map(({ key }) => parseTask(key)))];
    const heads = await step.reader.getMany(tasks.map((task) => keys.task(task)));
    for (const [i, task] of tasks.entries()) {
      if (heads[i] !== undefined) continue;
      step.noteOnce(tenant, task, ofTask("mission", `a record of ${subspace} belongs to no task`));
    }
  }
  if (more) return { subspace: number, after: rows.at(-1)?.key ?? null };
  return number + 1 < MISSION_SUBSPACES.length ? { subspace: number + 1, after: null } : null;
}

/** Returns the key after which the next call continues; null: all entries are verified. */
export async function verifyMissionDue(step: ScrubStep, from: Bytes | null): Promise<Bytes | null> {
  const { begin, end } = systemKeys.missionsDueBefore(Number.MAX_SAFE_INTEGER);
  const range = { begin: from === null ? begin : after(from), end };
  const { rows, more } = await step.reader.getRange(range, { limit: SLICE });
  // An entry of an agent is set when it fails, and its locks may have ended since.
  const entries = rows
    .flatMap(({ key }) => readable(() => parseMissionDue(key)) ?? [])
    .filter(({ agent }) => lostAgent(agent) === null);
  const tables = await locksOf(step, entries);
  const mailboxes = await mailboxesOf(step, entries);
  for (const [i, { tenant, task, agent, dueMs }] of entries.entries()) {
    const [table, mailbox] = [tables[i], mailboxes[i]];
    const isOfLocks = agent === OF_MISSION;
    const due = isOfLocks ? table && lockDueMs(table) : mailbox && mailboxDueMs(mailbox);
    if (due === undefined || due === dueMs) continue;
    const details = isOfLocks
      ? "the mission is among those whose locks end, and none of its locks ends then"
      : "the mission is among those whose messages fail, and none of its messages fails then";
    step.noteOnce(tenant, task, ofTask("mission", details));
  }
  return more ? (rows.at(-1)?.key ?? null) : null;
}

interface Place {
  readonly tenant: string;
  readonly task: string;
}

/** undefined: the table is not readable, which the walk over the tasks reports. */
const locksOf = ({ reader }: ScrubStep, places: readonly Place[]): Promise<(LockTable | undefined)[]> =>
  recordsOf(reader, places, (keys, task) => keys.missionLocks(task), NO_LOCKS);

/** As {@link locksOf}. */
const mailboxesOf = (
  { reader }: ScrubStep,
  places: readonly Place[],
): Promise<(MailboxRecord | undefined)[]> =>
  recordsOf(reader, places, (keys, task) => keys.mailbox(task), EMPTY_MAILBOX);

async function recordsOf<T extends object>(
  reader: Reader,
  places: readonly Place[],
  keyOf: (keys: TenantKeys, task: string) => Bytes,
  absent: T,
): Promise<(T | undefined)[]> {
  const values = await reader.getMany(places.map(({ tenant, task }) => keyOf(tenantKeys(tenant), task)));
  return values.map((value) =>
    value === undefined ? absent : (readable(() => openRecord<T>(value).value) ?? undefined),
  );
}
