/**
 * The order of a task's checkpoints: their commit order, independent of clocks. Each entry holds the current
 * version of its checkpoint and its hash, so that a row rolled back to an earlier version is noticed, the
 * checkpoint to fall back to, which must be known exactly when the checkpoint itself is corrupt, and its
 * retention policy, so that retention need not open every checkpoint that is not due.
 */
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import { parseSeq, type TenantKeys } from "../kv/keyspace.ts";

export interface OrderEntry {
  readonly id: string;
  readonly fallback: string | null;
  /** The current version and its hash, hex. */
  readonly version: number;
  readonly hash: string;
  /** The retention policy of this version. null: an earlier version of the fleet wrote the entry. */
  readonly retention: string | null;
}

type OrderRow = [id: string, fallback: string | null, version: number, hash: Bytes, retention?: string];

export function writeOrder(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  seq: number,
  entry: OrderEntry & { readonly retention: string },
): void {
  const { id, fallback, version, hash, retention } = entry;
  const row: OrderRow = [id, fallback, version, Buffer.from(hash, "hex"), retention];
  tx.set(keys.order(task, seq), encodeChecked(row));
}

/** null: the entry is missing or damaged. */
export function decodeOrder(value: Bytes | undefined): OrderEntry | null {
  if (value === undefined) return null;
  try {
    const [id, fallback, version, hash, retention = null] = decodeChecked<OrderRow>(value);
    return { id, fallback, version, hash: Buffer.from(hash).toString("hex"), retention };
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}

/**
 * The positions from `from` to `to` (both included), newest or oldest first; `entry` is null if it is lost.
 */
export async function readOrder(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  span: { from: number; to: number; limit: number; reverse: boolean },
): Promise<{ seq: number; entry: OrderEntry | null }[]> {
  const { from, to, limit, reverse } = span;
  const range = { begin: keys.order(task, from), end: keys.order(task, to + 1) };
  const { rows } = await reader.getRange(range, { limit, reverse });
  const found = new Map(rows.map(({ key, value }) => [parseSeq(key), decodeOrder(value)]));
  const count = Math.min(limit, to - from + 1);
  return Array.from({ length: count }, (_, i) => {
    const seq = reverse ? to - i : from + i;
    return { seq, entry: found.get(seq) ?? null };
  });
}
