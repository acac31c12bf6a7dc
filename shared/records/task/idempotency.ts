/**
 * One record per command, read and written in the command's own transaction: however often a command is sent, retried or
 * redelivered, whichever copy commits first wins and every other finds its answer.
 */
import type { FiredTrigger } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { HandoffState } from "../../protocol/handoff-states.ts";
import type { RecoveryState } from "../../protocol/recovery-states.ts";
import { type Bytes, STAMP_BYTES, type Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { expire } from "./expiry.ts";

/** What is remembered of an answer: everything but the position, which is the stamp that the store puts before it. */
export type RememberedAnswer =
  | RememberedCheckpoint
  | RememberedOwnership
  | RememberedHandoff
  | RememberedRecovery;

/** Of a command that wrote a version of a checkpoint. */
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

/** Of a command that changed who owns the task. */
export type RememberedOwnership = {
  readonly task_id: string;
  readonly owner: string | null;
  readonly fence: number;
  readonly committed_at: string;
};

/** Of an acknowledged offer: the same, and where to continue until when. */
export type RememberedAcknowledgement = RememberedOwnership & {
  readonly handoff_id: string;
  readonly checkpoint_id: string;
  readonly deadline: string;
};

/** Of a command that opened or closed a handoff. */
export type RememberedHandoff = {
  readonly task_id: string;
  readonly handoff_id: string;
  readonly checkpoint_id: string;
  readonly state: HandoffState;
  readonly committed_at: string;
};

/** Of a command that asked for a recovery. */
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

/** The answer given before and its commit position in hex; throws CONFLICT when the id was used for another content. */
export function recall(
  record: Bytes,
  requestHash: string,
): { readonly answer: RememberedAnswer; readonly position: string } {
  const { request, answer } = decodeChecked<Remembered>(record.subarray(STAMP_BYTES));
  if (Buffer.from(request).toString("hex") !== requestHash) {
    throw new FleetError("CONFLICT", "this command id was used before for another content", {
      fields: [{ path: "command_id", expected: "a new UUIDv7 for a new command" }],
    });
  }
  return { answer, position: Buffer.from(record.subarray(0, STAMP_BYTES)).toString("hex") };
}

/** When a command with this content was applied; null: none was, or its record cannot be read. */
export function appliedAt(record: Bytes | undefined, requestHash: string): string | null {
  // What was done without an answer has a record that is empty.
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

/** That something without an answer was done; forgotten like a command. */
export function rememberOccasion(
  tx: Tx,
  keys: TenantKeys,
  { tenant, mark, nowMs }: { tenant: string; mark: string; nowMs: number },
): void {
  tx.set(keys.command(mark), new Uint8Array(0));
  expire(tx, { tenant, command: mark, nowMs });
}
