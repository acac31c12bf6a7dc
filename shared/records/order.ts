/**
 * The order of a task's checkpoints: by the sequence in which they were committed, which no clock decides. Each entry also names
 * where to fall back to, because that must be known exactly when the checkpoint itself cannot be trusted.
 */
import type { Bytes, Reader, Tx } from "../store/store.ts";
import { decode, encode } from "./codec.ts";
import { parseSeq, type TenantKeys } from "./keyspace.ts";

export interface OrderEntry {
  readonly id: string;
  readonly fallback: string | null;
}

export function writeOrder(tx: Tx, keys: TenantKeys, task: string, seq: number, entry: OrderEntry): void {
  tx.set(keys.order(task, seq), encode([entry.id, entry.fallback]));
}

export function decodeOrder(value: Bytes): OrderEntry {
  const [id, fallback] = decode<[string, string | null]>(value);
  return { id, fallback };
}

/** Entries between two positions (both included), newest or oldest first. */
export async function readOrder(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  span: { from: number; to: number; limit: number; reverse: boolean },
): Promise<{ entries: (OrderEntry & { seq: number })[]; more: boolean }> {
  const range = { begin: keys.order(task, span.from), end: keys.order(task, span.to + 1) };
  const { rows, more } = await reader.getRange(range, { limit: span.limit, reverse: span.reverse });
  return { entries: rows.map(({ key, value }) => ({ seq: parseSeq(key), ...decodeOrder(value) })), more };
}
