/**
 * The record that says how far the rows of a store are encrypted. It is encrypted itself, so a program without the keys cannot make one up. It could write an
 * older copy back, from a time when plain rows were believed: `conversion-statement.ts` finds that. A store without the record is not encrypted.
 */
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import { systemKeys } from "../kv/keyspace.ts";
import type { KeyRing } from "./keys/key-ring.ts";
import { SYSTEM_PLACE } from "./keys/place.ts";
import { keyIdText, openValue, sealedWith } from "./sealed-value.ts";

export interface EncryptionState {
  /** `converting`: rows from before the encryption may be plain. */
  readonly state: "converting" | "complete";
  /** ISO 8601. */
  readonly began_at: string;
  readonly completed_at: string | null;
  /** The last key whose row was looked at; null: the conversion begins. */
  readonly done: Bytes | null;
  /** The rows that were encrypted so far, and those of the present walk. */
  readonly converted: number;
  readonly found: number;
  /** The rotations that were requested, and those whose bucket keys are there. */
  readonly rotations: number;
  readonly rotated: number;
  /** The newest entry in the audit chain of the default tenant when the encryption began: the statement of its end is behind it. Absent: it is not known. */
  readonly acts?: number;
  /** The audit chain states the end of the conversion. Absent: it does not, or there was none. */
  readonly stated?: boolean;
}

export async function readEncryptionState(reader: Reader): Promise<EncryptionState | null> {
  const value = await reader.get(systemKeys.encryption());
  return value === undefined ? null : decodeChecked<EncryptionState>(value);
}

export function writeEncryptionState(tx: Tx, state: EncryptionState): void {
  tx.set(systemKeys.encryption(), encodeChecked(state));
}

/** null: the record is lost, was changed, or cannot be decrypted now. Then no plain row is believed. */
export async function findConversion(
  reader: Reader,
  ring: KeyRing,
): Promise<EncryptionState["state"] | null> {
  const key = systemKeys.encryption();
  const value = await reader.get(key);
  const id = value === undefined ? null : sealedWith(value);
  if (value === undefined || id === null) return null;
  const keys = ring.known(SYSTEM_PLACE) ?? (await ring.fetch(reader, [SYSTEM_PLACE])).get(SYSTEM_PLACE.id);
  const dataKey = keys?.byId.get(keyIdText(id));
  const plain = dataKey === undefined ? null : openValue(dataKey, value, key);
  return plain === null ? null : decodeChecked<EncryptionState>(plain).state;
}
