/** Reads indexes of due records over all tenants, the longest overdue first, and what their keys name. */
import type { Bytes, KeyRange, KeyValue, Reader } from "../../store/store.ts";
import { elementsOf, formatUuid } from "./key-elements.ts";
import { after, endingId } from "./keyspace.ts";

export interface DueIndex<P, T> {
  /** The index entries that are due at the time of the query. */
  readonly range: KeyRange;
  readonly placeOf: (row: KeyValue) => P;
  readonly recordKey: (place: P) => Bytes;
  /** Returns null for an unreadable record, so that one damaged record does not stop the sweep. */
  readonly decode: (value: Bytes | undefined, place: P) => T | null;
}

/** At most `limit` records. Those that `passOver` selects are skipped and do not count for the limit. */
export async function readDue<P, T>(
  reader: Reader,
  { range: due, placeOf, recordKey, decode }: DueIndex<P, T>,
  limit: number,
  passOver: (place: P) => boolean = () => false,
): Promise<T[]> {
  const found: T[] = [];
  for (let range = due; ; ) {
    const { rows, more } = await reader.getRange(range, { limit });
    const places = rows.map(placeOf).filter((place) => !passOver(place));
    const values = await reader.getMany(places.map(recordKey));
    found.push(...places.flatMap((place, i) => decode(values[i], place) ?? []));
    const last = rows.at(-1);
    if (found.length >= limit || !more || last === undefined) return found.slice(0, limit);
    range = { ...range, begin: after(last.key) };
  }
}

/** Reads hour, tenant and command out of an `expiry` key. */
export function parseExpiry(key: Bytes): { hour: number; tenant: string; command: string } {
  const elements = elementsOf(key) as unknown[];
  const id = elements[5] as { value: Buffer };
  return { hour: elements[3] as number, tenant: elements[4] as string, command: formatUuid(id.value) };
}

/** Reads tenant and name out of a `scrub` key. */
export function parseFinding(key: Bytes): { tenant: string; id: string } {
  const elements = elementsOf(key) as string[];
  return { tenant: elements[3]!, id: elements[5]! };
}

/** Reads tenant and alert out of an `alert_ack_expiry` key. */
export function parseAlertAckExpiry(key: Bytes): { tenant: string; alert: string } {
  const elements = elementsOf(key) as unknown[];
  return { tenant: elements[4] as string, alert: elements[5] as string };
}

/** Reads tenant, agent and session out of a `session_expiry` key. */
export function parseSessionExpiry(key: Bytes): { tenant: string; agent: string; session: string } {
  const elements = elementsOf(key) as string[];
  return { tenant: elements[4]!, agent: elements[5]!, session: elements[6]! };
}

/** Reads time, tenant and handoff out of a `handoff_due` key. */
export function parseHandoffDue(key: Bytes): { dueMs: number; tenant: string; id: string } {
  const elements = elementsOf(key) as unknown[];
  return { dueMs: elements[3] as number, tenant: elements[4] as string, id: endingId(key) };
}

/** Reads tenant and task out of a `recovery_due` key. */
export function parseRecoveryDue(key: Bytes): { tenant: string; task: string } {
  const elements = elementsOf(key) as unknown[];
  return { tenant: elements[4] as string, task: elements[5] as string };
}
