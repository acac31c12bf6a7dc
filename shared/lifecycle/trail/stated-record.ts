/** The records of a mission that an audit entry states, each with the hash of its bytes. */
import type { AuditEntry } from "../replay.ts";

export interface StatedRecord {
  readonly hash: string;
  readonly name: string;
}

/** The form in which an audit entry states a record. */
export const statedRecord = (hash: string, name: string): string => `${hash} ${name}`;

/** null: the text states no record. */
export function parseStatedRecord(text: string): StatedRecord | null {
  const [, hash, name] = /^([0-9a-f]{64}) (.+)$/s.exec(text) ?? [];
  return hash === undefined || name === undefined ? null : { hash, name };
}

export function statedRecordsOf({ records }: AuditEntry): StatedRecord[] {
  return Array.isArray(records) ? records.flatMap((text) => parseStatedRecord(String(text)) ?? []) : [];
}
