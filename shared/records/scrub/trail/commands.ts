/**
 * Compares the idempotency records with the audit trails, in both directions. A record that was deleted would
 * let its command be applied again; a record that was edited or inserted would give a false answer.
 */

import type { AuditEntry } from "../../../lifecycle/replay.ts";
import { isId } from "../../../protocol/ids.ts";
import type { Bytes } from "../../../store/store.ts";
import { readable } from "../../kv/codec.ts";
import { after, endingId, tenantKeys } from "../../kv/keyspace.ts";
import { forgottenKey, isKept } from "../../task/expiry.ts";
import { isClosed, isOccasion, openRemembered } from "../../task/idempotency.ts";
import { ofTask, type ScrubStep, TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "./entries.ts";

/** The number of records in one read. */
const SLICE = 64;

/** A command as the trail records it. */
export interface AppliedCommand {
  readonly id: string;
  readonly at: string;
  /** Its first entry. */
  readonly seq: number;
}

export interface KnownCommands {
  /** The command of the entry before; null: there is none. */
  readonly newest: AppliedCommand | null;
  /** The first entry of each command that this step has met. */
  readonly seen: Map<string, number>;
}

/**
 * Verifies that each command is in the trail once, and that its record agrees if it has not expired. Returns
 * the newest command.
 */
export async function verifyAppliedCommands(
  scrub: TaskScrub,
  entries: readonly (AuditEntry | undefined)[],
  { newest, seen }: KnownCommands,
): Promise<AppliedCommand | null> {
  const begun: AppliedCommand[] = [];
  let last = newest;
  for (const entry of entries) {
    const command = commandOf(entry);
    // One command may have made several entries, all at one time.
    if (command === null || (last?.id === command.id && last.at === command.at)) continue;
    const first = seen.get(command.id);
    if (first !== undefined) noteTwice(scrub, first, command.seq);
    else seen.set(command.id, command.seq);
    last = command;
    begun.push(command);
  }
  await verifyRecords(scrub, begun);
  return last;
}

/**
 * null: the entry is not of a command that this task applied. The command of a refusal was not applied, and
 * that of a fork was applied to the new task.
 */
function commandOf(entry: AuditEntry | undefined): AppliedCommand | null {
  const { command_id: id, at, seq, op } = entry ?? {};
  if (op === "refuse" || op === "fork" || typeof seq !== "number") return null;
  return isId(id) && typeof at === "string" ? { id, at, seq } : null;
}

async function verifyRecords(scrub: TaskScrub, applied: readonly AppliedCommand[]): Promise<void> {
  const { reader, keys, tenant, task } = scrub;
  if (applied.length === 0) return;
  const [forgotten, ...records] = await reader.getMany([
    forgottenKey(),
    ...applied.map(({ id }) => keys.command(id)),
  ]);
  for (const [i, { id, at, seq }] of applied.entries()) {
    const record = records[i];
    if (record === undefined) {
      if (isKept(Date.parse(at), forgotten)) {
        scrub.note(ofTask("command", `entry ${seq}: the record of its command is lost`));
      }
      continue;
    }
    const read = readable(() => openRemembered(record, { tenant, command: id }));
    if (read === null) scrub.note(ofTask("command", `entry ${seq}: the record of its command is damaged`));
    // Records of earlier versions do not name their entry.
    else if (read.seq === null) continue;
    else if (read.answer.task_id === task && read.seq > seq) noteTwice(scrub, seq, read.seq);
    else if (read.answer.task_id !== task || read.seq !== seq || read.answer.committed_at !== at) {
      scrub.note(ofTask("command", `entry ${seq}: the record of its command is about another entry`));
    }
  }
}

function noteTwice(scrub: TaskScrub, first: number, second: number): void {
  scrub.note(ofTask("command", `entries ${first} and ${second}: one command was applied twice`));
}

/**
 * Verifies that the records of the tenant after the key `from` name entries of their commands. Returns the
 * key after which the next call continues; null: all are verified.
 */
export async function verifyCommandRecords(
  step: ScrubStep,
  tenant: string,
  from: Bytes | null,
): Promise<Bytes | null> {
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.commands();
  const range = { begin: from === null ? begin : after(from), end };
  const { rows, more } = await step.reader.getRange(range, { limit: SLICE });
  const answered = rows.flatMap(({ key, value }) => {
    if (isOccasion(value) || isClosed(value)) return [];
    const command = endingId(key);
    // A damaged record is found by the entry of its command.
    const read = readable(() => openRemembered(value, { tenant, command }));
    return read === null || read.seq === null ? [] : [{ command, seq: read.seq, answer: read.answer }];
  });
  const entries = await step.reader.getMany(
    answered.map(({ answer, seq }) => keys.audit(answer.task_id, seq)),
  );
  for (const [i, { command, seq, answer }] of answered.entries()) {
    const entry = readEntry(entries[i])?.facts;
    const contradicts = entry === undefined ? null : contradictionOf(entry, answer);
    if (entry?.command_id === command && contradicts === null) continue;
    const scrub = new TaskScrub(step, tenant, answer.task_id, { canMark: false, found: 0 });
    const details =
      entry?.command_id === command
        ? `entry ${seq}: the answer to its command has another ${contradicts}`
        : `the record of command ${command} names entry ${seq}, which is not of this command`;
    scrub.note(ofTask("command", details));
  }
  return more ? (rows.at(-1)?.key ?? null) : null;
}

/** The member in which an answer contradicts its entry; null: none. */
function contradictionOf(entry: AuditEntry, answer: object): string | null {
  const { checkpoint_id, version, new_hash: hash, at: committed_at } = entry;
  const stated = hash === null ? { committed_at } : { checkpoint_id, version, hash, committed_at };
  const given = new Map<string, unknown>(Object.entries(answer));
  const differing = Object.entries(stated).find(([name, value]) => given.get(name) !== value);
  return differing?.[0] ?? null;
}
