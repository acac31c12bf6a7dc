/**
 * How far a rotation of bucket keys is. The record is written in each transaction of the rotation, so after a crash or a change of the lease another watchdog
 * continues at the same place. It is encrypted, and absent while no rotation is in progress.
 */
import type { Bytes, Reader, Store, Tx } from "../../../store/store.ts";
import { decodeChecked, encodeChecked, readable } from "../../kv/codec.ts";
import { systemKeys } from "../../kv/keyspace.ts";
import type { KeyRing } from "../keys/key-ring.ts";

/** What the jobs need that change wrapped keys. */
export interface Rotating {
  /** The store without encryption: wrapped keys are plain rows. */
  readonly engine: Store;
  readonly ring: KeyRing;
  /** Throws when this instance may no longer rotate. */
  readonly guard: (tx: Tx) => Promise<void>;
}

interface OfRotation {
  /** The number of the newest request that it carries out. */
  readonly rotation: number;
}

/** Owners get their new bucket keys. */
export interface AddingBuckets extends OfRotation {
  readonly phase: "adding";
  /** The last owner that has one: the key of one of its rows. null: none has. */
  readonly after: Bytes | null;
}

/** What could not be wrapped again. */
export interface LeftKeys {
  /** Keys that were changed or moved. */
  readonly damaged: number;
  /** Owners whose bucket keys need a root key that cannot be used. */
  readonly unavailable: number;
}

/** The owner whose data keys are wrapped again. */
export interface OwnerWalk {
  /** The key of one of its bucket keys. */
  readonly row: Bytes;
  /** Of its newest bucket key when the walk over its data keys began. */
  readonly generation: number;
  /** The key of the last row of data keys that was looked at; null: none was. */
  readonly done: Bytes | null;
  readonly damaged: number;
}

/** Data keys are wrapped by the newest bucket keys, and the earlier bucket keys are removed. */
export interface WrappingAgain extends OfRotation, LeftKeys {
  readonly phase: "wrapping";
  /** 1 for the first walk over all owners. */
  readonly pass: number;
  /** The last owner that is done, as in {@link AddingBuckets}. */
  readonly after: Bytes | null;
  /** null: the next one is still to be found. */
  readonly owner: OwnerWalk | null;
}

/** A walk has left keys, and is repeated later: a backup may bring damaged ones back, and root keys may become usable. */
export interface WaitingRotation extends OfRotation, LeftKeys {
  readonly phase: "waiting";
  /** The walks that have ended. */
  readonly pass: number;
  /** ISO 8601. */
  readonly retry_at: string;
}

export type RotationRecord = AddingBuckets | WrappingAgain | WaitingRotation;

/** With its bytes, by which a transaction finds out whether it is still the same. */
export interface StoredRotation {
  /** null: there is none, or it is damaged. */
  readonly record: RotationRecord | null;
  readonly bytes: Bytes | undefined;
}

export async function readRotation(reader: Reader): Promise<StoredRotation> {
  const bytes = await reader.get(systemKeys.encryptionRotation());
  const record = bytes === undefined ? null : readable(() => decodeChecked<RotationRecord>(bytes));
  return { record, bytes };
}

/** `record` null: the rotation is complete. */
export function writeRotation(tx: Tx, record: RotationRecord | null): void {
  const key = systemKeys.encryptionRotation();
  if (record === null) tx.clear(key);
  else tx.set(key, encodeChecked(record));
}
