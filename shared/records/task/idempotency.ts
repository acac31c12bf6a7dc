/**
 * One idempotency record for each command, read and written in the command's own transaction. If a command is
 * sent, retried or redelivered many times, the first copy that commits takes effect, and all others get its
 * answer.
 */

import { canonicalText, sha256Hex } from "../../integrity/canonical.ts";
import type { FiredTrigger, ForkedFrom } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { HandoffState } from "../../protocol/handoff-states.ts";
import type { MissionStatus, SortieCounts } from "../../protocol/mission.ts";
import type { LOCK_STATES } from "../../protocol/mission-locks.ts";
import type { MailboxEvent, MessageState, SkippedMessage } from "../../protocol/mission-messages.ts";
import type { RecoveryState } from "../../protocol/recovery-states.ts";
import type { TaskShred } from "../../protocol/shred.ts";
import { sameBytes } from "../../store/same-bytes.ts";
import { type Bytes, STAMP_BYTES, type Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { formatUuid } from "../kv/key-elements.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { expire } from "./expiry.ts";

/** A stored answer: everything but the position, which is the stamp that the store puts before it. */
export type RememberedAnswer =
  | RememberedCheckpoint
  | RememberedOwnership
  | RememberedHandoff
  | RememberedRecovery
  | RememberedRetention
  | RememberedShred
  | RememberedEsignature
  | RememberedMission
  | RememberedSnapshot
  | RememberedResumption
  | RememberedLock
  | RememberedMessage
  | RememberedSubscription;

/** The answer to a command that wrote a version of a checkpoint. */
export type RememberedCheckpoint = {
  readonly task_id: string;
  readonly checkpoint_id: string;
  readonly version: number;
  readonly seq: number;
  readonly hash: string;
  readonly committed_at: string;
  readonly warnings?: string[];
  readonly handoff_advised?: FiredTrigger[];
  readonly handoff_id?: string;
  readonly forked_from?: ForkedFrom;
};

/** The answer to a command that changed the owner of the task. */
export type RememberedOwnership = {
  readonly task_id: string;
  readonly owner: string | null;
  readonly fence: number;
  readonly committed_at: string;
};

/**
 * The answer to an accepted offer, with the checkpoint to continue from and the deadline of the first own
 * checkpoint.
 */
export type RememberedAcknowledgement = RememberedOwnership & {
  readonly handoff_id: string;
  readonly checkpoint_id: string;
  readonly deadline: string;
};

/** The answer to a command that opened or closed a handoff. */
export type RememberedHandoff = {
  readonly task_id: string;
  readonly handoff_id: string;
  readonly checkpoint_id: string;
  readonly state: HandoffState;
  readonly committed_at: string;
};

/** The answer to a command that requested a recovery. */
export type RememberedRecovery = {
  readonly task_id: string;
  readonly recovery: RecoveryState;
  readonly checkpoint_id: string | null;
  readonly fence: number;
  readonly committed_at: string;
};

/** The answer to a command that removed a checkpoint. */
export type RememberedRemoval = RememberedCheckpoint & { readonly freed_bytes: number };

/** The answer to a command that changed the retention of a task. */
export type RememberedRetention = {
  readonly task_id: string;
  readonly retention_policy: string | null;
  readonly holds: string[];
  readonly committed_at: string;
};

/** The answer to a command of shredding. */
export type RememberedShred = {
  readonly task_id: string;
  readonly shred: TaskShred | null;
  readonly committed_at: string;
};

/** The answer to a command that added the electronic signature of a person. */
export type RememberedEsignature = {
  readonly task_id: string;
  readonly checkpoint_id: string;
  readonly version: number;
  readonly statement_hash: string;
  readonly audit_seq: number;
  readonly committed_at: string;
};

/** The answer to a command that changed a mission. */
export type RememberedMission = {
  readonly task_id: string;
  readonly mission_status: MissionStatus;
  readonly progress_percent: number;
  readonly committed_at: string;
  readonly checkpoint_id?: string;
  readonly sortie_ids?: string[];
};

/** The answer to a command that recorded a mission. */
export type RememberedSnapshot = RememberedCheckpoint & {
  readonly mission_status: MissionStatus;
  readonly progress_percent: number;
  readonly sorties: SortieCounts;
  readonly lock_count: number;
  readonly message_count: number;
  readonly failed_message_count?: number;
};

/** The answer to a command that resumed a mission. */
export type RememberedResumption = RememberedMission & {
  readonly checkpoint_id: string;
  readonly restored: { readonly sorties: number; readonly locks: number; readonly messages: number };
  readonly kept_sorties: string[];
  readonly passed_over: string[];
  /** Absent in answers of earlier versions. */
  readonly blockers?: string[];
  readonly requeued_messages?: string[];
  readonly skipped_messages?: SkippedMessage[];
  readonly notified?: { readonly agent_id: string; readonly path: string; readonly message_id: string }[];
};

/** The answer to a command of a lock. */
export type RememberedLock = {
  readonly task_id: string;
  readonly committed_at: string;
  readonly path: string;
  readonly state: (typeof LOCK_STATES)[number];
  readonly lock_id: string;
  readonly held_by: string | null;
  readonly fence?: number;
  readonly until?: string;
  readonly checkpoint_id?: string;
};

/** The answer to a command of a message. */
export type RememberedMessage = {
  readonly task_id: string;
  readonly committed_at: string;
  readonly message_id: string;
  readonly state: MessageState;
  readonly deadline: string;
  readonly received_by: string[];
  readonly missing: string[];
  readonly unknown?: string[];
};

/** The answer to a subscription. */
export type RememberedSubscription = {
  readonly task_id: string;
  readonly committed_at: string;
  readonly agent_id: string;
  readonly events: MailboxEvent[];
};

interface Remembered {
  readonly request: Bytes;
  readonly answer: RememberedAnswer;
  /** The first audit entry of the command. Records of earlier versions lack this member and the next. */
  readonly seq?: number;
  /** SHA-256 over all other members and the key, so that an edited or exchanged answer is not given. */
  readonly check?: Bytes;
}

/** The key of a record: the command. */
export interface CommandKey {
  readonly tenant: string;
  readonly command: string;
}

function checkOf(
  { tenant, command }: CommandKey,
  { request, answer, seq }: Omit<Remembered, "check">,
): Buffer {
  const covered = { answer, command, request: Buffer.from(request).toString("hex"), seq, tenant };
  return Buffer.from(sha256Hex(canonicalText(covered)), "hex");
}

/** Throws UnreadableValue for a damaged or edited record. `seq` null: an earlier version wrote it. */
export function openRemembered(
  record: Bytes,
  key: CommandKey,
): { readonly request: string; readonly answer: RememberedAnswer; readonly seq: number | null } {
  const value = decodeChecked<Remembered>(record.subarray(STAMP_BYTES));
  const { request, answer, seq, check } = value;
  if ((seq !== undefined || check !== undefined) && !checkOf(key, value).equals(check ?? new Uint8Array(0))) {
    throw new UnreadableValue("the stored answer does not have its check value");
  }
  const task: unknown = answer?.task_id;
  if (typeof task !== "string" || !task.isWellFormed() || !Number.isSafeInteger(seq ?? 0)) {
    throw new UnreadableValue("the stored answer is of no task");
  }
  return { request: Buffer.from(request).toString("hex"), answer, seq: seq ?? null };
}

/**
 * The stored answer and its commit position in hex. Throws CONFLICT when the id was used for other content.
 */
export function recall(
  record: Bytes,
  key: CommandKey,
  requestHash: string,
): { readonly answer: RememberedAnswer; readonly position: string } {
  const { request, answer } = openRemembered(record, key);
  if (request !== requestHash) {
    throw new FleetError("CONFLICT", "this command id was used before for other content", {
      fields: [{ path: "command_id", expected: "a new UUIDv7 for a new command" }],
    });
  }
  return { answer, position: Buffer.from(record.subarray(0, STAMP_BYTES)).toString("hex") };
}

/** Whether the record is of an occasion, which has no answer. */
export function isOccasion(record: Bytes): boolean {
  return record.length <= STAMP_BYTES;
}

/**
 * In place of an answer, and never that of a content: a writer of an earlier version takes it for the answer to another one, and refuses the command too.
 * A damaged record is no such mark, and is not taken for a command that was never applied.
 */
const CLOSED: Bytes = encodeChecked({ request: new Uint8Array(0), answer: { task_id: "" } });

/** Whether the record is of a command that was refused, and of which no earlier attempt can commit. */
export function isClosed(record: Bytes): boolean {
  return sameBytes(CLOSED, record.subarray(STAMP_BYTES));
}

/** Whether the command of the record was applied, as far as its record says. */
export function isAnswered(record: Bytes | undefined): record is Bytes {
  return record !== undefined && !isClosed(record);
}

/**
 * The time at which a command with this content was applied; null: it was not, or its record cannot be read.
 */
export function appliedAt(record: Bytes | undefined, key: CommandKey, requestHash: string): string | null {
  if (record === undefined || isOccasion(record)) return null;
  try {
    return recall(record, key, requestHash).answer.committed_at;
  } catch (error) {
    if (error instanceof FleetError || error instanceof UnreadableValue) return null;
    throw error;
  }
}

export function remember(
  tx: Tx,
  keys: TenantKeys,
  record: CommandKey & { requestHash: string; answer: RememberedAnswer; auditSeq: number; nowMs: number },
): void {
  const { answer, auditSeq: seq } = record;
  const value = { request: Buffer.from(record.requestHash, "hex"), answer, seq };
  const checked: Remembered = { ...value, check: checkOf(record, value) };
  tx.setStampedValue(keys.command(record.command), new Uint8Array(0), encodeChecked(checked));
  expire(tx, record);
}

/** Each earlier attempt at the command has read another record or none, so it conflicts with this one. */
export function rememberClosed(
  tx: Tx,
  keys: TenantKeys,
  record: CommandKey & { readonly nowMs: number },
): void {
  // With the stamp of the commit no two of these records are equal.
  tx.setStampedValue(keys.command(record.command), new Uint8Array(0), CLOSED);
  expire(tx, record);
}

/** The key of the record of something without an answer. `occasion` identifies it, the same in every attempt. */
export function occasionKey(keys: TenantKeys, occasion: string): Bytes {
  return keys.command(markOf(occasion));
}

/** Records that something without an answer was done. The record expires like that of a command. */
export function rememberOccasion(
  tx: Tx,
  keys: TenantKeys,
  { tenant, occasion, nowMs }: { tenant: string; occasion: string; nowMs: number },
): void {
  tx.set(occasionKey(keys, occasion), new Uint8Array(0));
  expire(tx, { tenant, command: markOf(occasion), nowMs });
}

/** A UUID of version 8, so that it never equals a command id. */
function markOf(occasion: string): string {
  const hex = sha256Hex(occasion);
  return formatUuid(Buffer.from(`${hex.slice(0, 12)}8${hex.slice(13, 32)}`, "hex"));
}
