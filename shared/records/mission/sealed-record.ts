/**
 * The records of missions on disk. Each states the audit entry that wrote it, and that entry states the hash of its
 * bytes. So the scrub finds a record that was edited, deleted, inserted or taken from an older copy, also in its
 * texts, which the trail must not hold (guarantee 13). The hash stays when the record is gone, so each has a salt of its own.
 */
import { sha256Hex } from "../../integrity/canonical.ts";
import { newSalt, type SaltSource } from "../../integrity/seal.ts";
import { statedRecord } from "../../lifecycle/trail/stated-record.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";
import { parseMailboxRecord } from "../kv/mission-keys.ts";

/** A record to write. Its name is unique in the mission. */
export interface NamedRecord {
  readonly name: string;
  readonly key: Bytes;
  readonly value: object;
}

export const MISSION_NAME = "mission";
export const LOCKS_NAME = "locks";
export const MAILBOX_NAME = "mailbox";
export const messageName = (place: number): string => `message/${place}`;
export const bodyName = (place: number): string => `body/${place}`;
export const sortieName = (sortie: string): string => `sortie/${sortie}`;

/** The name of a record of the mailbox by its key. */
export function mailboxRecordName(key: Bytes): string {
  const { kind, place } = parseMailboxRecord(key);
  return place === null ? kind : `${kind}/${place}`;
}

/** The key of a record by its name; null: no record has this name. */
export function recordKeyOf(keys: TenantKeys, task: string, name: string): Bytes | null {
  if (name === MISSION_NAME) return keys.mission(task);
  if (name === LOCKS_NAME) return keys.missionLocks(task);
  if (name === MAILBOX_NAME) return keys.mailbox(task);
  const [, kind, place] = /^(message|body)\/(\d{1,9})$/.exec(name) ?? [];
  if (kind === "message") return keys.message(task, Number(place));
  if (kind === "body") return keys.messageBody(task, Number(place));
  const [, sortie] = /^sortie\/(.+)$/s.exec(name) ?? [];
  return sortie === undefined ? null : keys.sortie(task, sortie);
}

export const recordHash = (bytes: Bytes): string => sha256Hex(bytes);

/** Writes the records in the transaction. Returns them as the audit entry must state them. */
export function writeRecords(
  tx: Tx,
  { newSalt: salts }: { readonly newSalt: SaltSource },
  records: readonly NamedRecord[],
  auditSeq: number,
): string[] {
  return records.map(({ name, key, value }) => {
    const bytes = encodeRecord(value, auditSeq, salts);
    tx.set(key, bytes);
    return statedRecord(recordHash(bytes), name);
  });
}

export function encodeRecord(value: object, auditSeq: number, salts: SaltSource = newSalt): Bytes {
  return encodeChecked({ ...value, salt: salts(), audit_seq: auditSeq });
}

/** The number of the entry that wrote the record, with the record. Throws UnreadableValue. */
export function openRecord<T extends object>(bytes: Bytes): { readonly value: T; readonly auditSeq: number } {
  const decoded = decodeChecked<T & { readonly audit_seq?: unknown; readonly salt?: unknown }>(bytes);
  if (typeof decoded !== "object" || decoded === null) throw new UnreadableValue("not a record");
  const { audit_seq: auditSeq, salt: _salt, ...value } = decoded;
  if (!Number.isSafeInteger(auditSeq)) throw new UnreadableValue("the record names no audit entry");
  return { value: value as unknown as T, auditSeq: auditSeq as number };
}

/** For scans: null for a record that cannot be read. */
export function openSoundRecord<T extends object>(bytes: Bytes): T | null {
  try {
    return openRecord<T>(bytes).value;
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}

/** Throws CORRUPT: an operator must decide about a record that cannot be read. */
export function decodeRecord<T extends object>(bytes: Bytes, details: Record<string, unknown>): T {
  try {
    return openRecord<T>(bytes).value;
  } catch (error) {
    if (!(error instanceof UnreadableValue)) throw error;
    throw new FleetError("CORRUPT", "a stored record of the mission cannot be read", { details });
  }
}
