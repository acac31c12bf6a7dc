/** A half-open range of an LMDB database, in either direction, as copies. */
import type { Transaction } from "lmdb";
import type { KeyRange, KeyValue } from "../store.ts";
import type { Environment } from "./environment.ts";

export function rowsOf(
  database: Environment,
  range: KeyRange,
  { limit, reverse = false, transaction }: { limit: number; reverse?: boolean; transaction?: Transaction },
): KeyValue[] {
  const begin = Buffer.from(range.begin);
  const end = Buffer.from(range.end);
  // The engine's own reverse range includes where it starts and excludes where it ends: the wrong way round.
  const bounds = reverse
    ? { start: end, end: begin, reverse, exclusiveStart: true, inclusiveEnd: true }
    : { start: begin, end };
  const rows = database.getRange({ ...bounds, limit, ...(transaction && { transaction }) });
  return [...rows].map(({ key, value }) => ({ key, value }));
}
