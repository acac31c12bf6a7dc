/**
 * One idempotency record for each command, read and written in the command's own transaction. If a command is
 * sent, retried or redelivered many times, the first copy that commits takes effect, and all others get its
 * answer.
 */
import type { FiredTrigger } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { HandoffState } from "../../protocol/handoff-states.ts";
import type { RecoveryState } from "../../protocol/recovery-states.ts";
import { type Bytes, STAMP_BYTES, type Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { expire } from "./expiry.ts";

/** A stored answer: everything but the position, which is the stamp that the store puts before it. */
export type RememberedAnswer =
  | RememberedCheckpoint
  | RememberedOwnership
  | RememberedHandoff
  | RememberedRecovery;

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

interface Remembered {
  readonly request: Bytes;
  readonly answer: RememberedAnswer;
}

/**
 * The stored answer and its commit position in hex. Throws CONFLICT when the id was used for other content.
 */
export function recall(
  record: Bytes,
  requestHash: string,
): { readonly answer: RememberedAnswer; readonly position: string } {
  const { request, answer } = decodeChecked<Remembered>(record.subarray(STAMP_BYTES));
  if (Buffer.from(request).toString("hex") !== requestHash) {
    throw new FleetError("CONFLICT", "this command id was used before for other content", {
      fields: [{ path: "command_id", expected: "a new UUIDv7 for a new command" }],
    });
  }
  return { answer, position: Buffer.from(record.subarray(0, STAMP_BYTES)).toString("hex") };
}

/**
 * The time at which a command with this content was applied; null: it was not, or its record cannot be read.
 */
export function appliedAt(record: Bytes | undefined, requestHash: string): string | null {
  // The record of an occasion without an answer is empty.
  if (record === undefined || record.length <= STAMP_BYTES) return null;
  try {
    return recall(record, requestHash).answer.committed_at;
  } catch (error) {
    if (error instanceof FleetError || error instanceof UnreadableValue) return null;
    throw error;
  }
}

export function remember(
  tx: Tx,
  keys: TenantKeys,
  record: { tenant: string; command: string; requestHash: string; answer: RememberedAnswer; nowMs: number },
): void {
  const value: Remembered = { request: Buffer.from(record.requestHash, "hex"), answer: record.answer };
  tx.setStampedValue(keys.command(record.command), new Uint8Array(0), encodeChecked(value));
  expire(tx, record);
}

/** Records that something without an answer was done. The record expires like that of a command. */
export function rememberOccasion(
  tx: Tx,
  keys: TenantKeys,
  { tenant, mark, nowMs }: { tenant: string; mark: string; nowMs: number },
): void {
  tx.set(keys.command(mark), new Uint8Array(0));
  expire(tx, { tenant, command: mark, nowMs });
}
