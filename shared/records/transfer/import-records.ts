/**
 * The records of an imported mission. They are written as this fleet writes its own: with the audit entry that states them, which also keeps
 * the hashes of the origin. The locks are released in the same transaction, because the agents of the origin are superseded.
 */
import type { Decision } from "../../lifecycle/decision.ts";
import { LockChanges, type LockTable } from "../../lifecycle/mission/locks.ts";
import { EMPTY_MAILBOX } from "../../lifecycle/mission/mailbox.ts";
import { endOfMission, recounted } from "../../lifecycle/mission/mission.ts";
import { statedRecord } from "../../lifecycle/trail/stated-record.ts";
import type { ImportRecordsCommand } from "../../protocol/commands.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import { SORTIE_STATUSES, type SortieCounts } from "../../protocol/mission.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { statedChange } from "../mission/lock-facts.ts";
import { readMailbox } from "../mission/messages/mailbox-records.ts";
import { namedMessages } from "../mission/messages/written-messages.ts";
import { indexMailbox } from "../mission/mission-due.ts";
import { readMission, readSorties } from "../mission/mission-records.ts";
import { LOCKS_NAME, recordKeyOf, writeRecords } from "../mission/sealed-record.ts";
import { begin, type CommandContext, complete, decided, type Replay } from "../task/command-transaction.ts";
import type { RememberedOwnership } from "../task/idempotency.ts";
import { requireImportedMessages } from "./imported-messages.ts";
import {
  type ImportedRecord,
  importedLocks,
  importedMission,
  openImportedRecord,
} from "./imported-record.ts";
import { type ImportingTask, requireImporting } from "./importing-task.ts";

/** The checks that need no store. Throws INVALID. */
export function checkImportedRecords(
  { records }: Pick<ImportRecordsCommand, "records">,
  task: string,
): ImportedRecord[] {
  const opened = records.map((one, i) => openImportedRecord(one, task, `records.${i}`));
  const names = opened.map(({ name }) => name);
  const repeated = names.findIndex((name, i) => names.indexOf(name) < i);
  if (repeated >= 0) throw invalid(`records.${repeated}.name`, "each record once", names[repeated]);
  return opened;
}

export async function importRecords(
  tx: Tx,
  context: CommandContext,
  command: ImportRecordsCommand,
): Promise<RememberedOwnership | Replay> {
  const { task } = context.actor;
  const opened = checkImportedRecords(command, task);
  const keyOf = (keys: TenantKeys, { name }: ImportedRecord) => recordKeyOf(keys, task, name) as Bytes;
  const begun = await begin(tx, context, (keys) => opened.map((one) => keyOf(keys, one)));
  if ("replay" in begun) return begun;
  const { keys, values } = begun;
  const head = requireImporting(begun.head, task);
  const known = values.findIndex((value) => value !== undefined);
  if (known >= 0) {
    throw new FleetError("CONFLICT", "the record was imported before", {
      details: { task_id: task, record: opened[known]?.name },
    });
  }
  const named = opened.map((one) => ({ name: one.name, key: keyOf(keys, one), value: one.value }));
  const decision = decided(
    context,
    { task: head, handoff: null },
    {
      type: "import_records",
      index: command.index,
      records: writeRecords(tx, context, named, head.audit_seq + 1),
      originRecords: opened.map(({ hash, name }) => statedRecord(hash, name)),
      missionStatus: importedMission(opened)?.status ?? null,
    },
  );
  releaseAll(tx, context, keys, decision, importedLocks(opened));
  const { task_id, owner, fence } = decision.task;
  const answer = { task_id, owner, fence, committed_at: decision.at };
  return complete(tx, context, begun, { transitions: decision.transitions, answer });
}

/** One transition for each lock and each wait. Neither was live in this fleet, so no index has them. */
function releaseAll(
  tx: Tx,
  context: CommandContext,
  keys: TenantKeys,
  decision: Decision,
  table: LockTable,
): void {
  const { task, nowMs } = decision.circumstances;
  const locks = new LockChanges(table, { nowMs, firstSeq: decision.task.audit_seq + 1 });
  for (const change of locks.releaseWhere(() => true, "holder_lost").changes) {
    const { event, facts } = statedChange(task, change);
    const record = { name: LOCKS_NAME, key: keys.missionLocks(task), value: change.after };
    const records = writeRecords(tx, context, [record], decision.task.audit_seq + 1);
    decision.add(change.op, { facts: { ...facts, records }, event });
  }
}

/**
 * At the end of the import. The records must make a whole mission. It becomes active unless it has ended, and the recipients of queued
 * messages have their whole time again. Returns the records that were written, as the audit entry must state them. Throws INVALID.
 */
export async function openImportedMission(
  tx: Tx,
  keys: TenantKeys,
  { task_id: task, tenant, audit_seq }: ImportingTask,
  context: CommandContext,
): Promise<string[]> {
  const mission = await readMission(tx, keys, task);
  if (mission === null) throw invalid("records", "the record of the mission");
  const sorties = await readSorties(tx, keys, task);
  const none = Object.fromEntries(SORTIE_STATUSES.map((status) => [status, 0])) as SortieCounts;
  const counts = sorties.reduce((all, { status }) => recounted(all, { from: null, to: status }), none);
  const wrong = SORTIE_STATUSES.find((status) => counts[status] !== mission.sorties[status]);
  if (wrong !== undefined)
    throw invalid("records", `${mission.sorties[wrong]} sorties that are ${wrong}`, counts[wrong]);
  if (endOfMission(mission.status) === null) tx.set(keys.activeMission(task), new Uint8Array(0));
  const mailbox = await readMailbox(tx, keys, task);
  const messages = await requireImportedMessages(tx, keys, task, mailbox);
  const due = (ms: number): string => new Date(context.nowMs + ms).toISOString();
  const queued = messages
    .filter(({ state }) => state === "queued")
    .map((message) => ({ ...message, deadline: due(message.timeout_ms) }));
  if (queued.length === 0) return [];
  const deadlines = new Map(queued.map(({ number, deadline }) => [number, deadline]));
  const open = mailbox.open.map((one) => ({ ...one, deadline: deadlines.get(one.number) ?? one.deadline }));
  const after = { ...mailbox, open };
  indexMailbox(tx, { tenant, task }, { before: EMPTY_MAILBOX, after });
  return writeRecords(
    tx,
    context,
    namedMessages(keys, task, { mailbox: after, messages: queued }),
    audit_seq + 1,
  );
}
