/**
 * Tombstones: what is left of a removed checkpoint, at its position in the order of the task. The entry that
 * names its position by its id stays too. So chains and links that name the checkpoint still verify, and a
 * read of it says what happened.
 */
import type { RemovalReason, RemovedCheckpoint } from "../../protocol/retention.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { decodePlace } from "../checkpoint/checkpoint-location.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";
import type { TenantKeys } from "../kv/keyspace.ts";

export interface Tombstone {
  readonly id: string;
  /** The checkpoint that is left to fall back to; null: none. */
  readonly fallback: string | null;
  readonly version: number;
  /** The hash of this version, hex. */
  readonly hash: string;
  readonly removedAt: string;
  readonly reason: RemovalReason;
  readonly policy: string;
  /** The service or operator that removed the checkpoint. */
  readonly by: string;
  readonly auditSeq: number;
}

type Row = [
  id: string,
  fallback: string | null,
  version: number,
  hash: Bytes,
  removedAt: string,
  reason: RemovalReason,
  policy: string,
  by: string,
  auditSeq: number,
];

export function writeTombstone(
  tx: Tx,
  keys: TenantKeys,
  task: string,
  seq: number,
  tombstone: Tombstone,
): void {
  const { id, fallback, version, hash, removedAt, reason, policy, by, auditSeq } = tombstone;
  const row: Row = [id, fallback, version, Buffer.from(hash, "hex"), removedAt, reason, policy, by, auditSeq];
  tx.set(keys.tombstone(task, seq), encodeChecked(row));
}

/** null: there is none, or it is damaged. */
export function decodeTombstone(value: Bytes | undefined): Tombstone | null {
  if (value === undefined) return null;
  try {
    const row = decodeChecked<Row>(value);
    if (!Array.isArray(row) || row.length !== 9) return null;
    const [id, fallback, version, hash, removedAt, reason, policy, by, auditSeq] = row;
    return {
      ...{ id, fallback, version, hash: Buffer.from(hash).toString("hex") },
      ...{ removedAt, reason, policy, by, auditSeq },
    };
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}

export function removedView(task: string, seq: number, tombstone: Tombstone): RemovedCheckpoint {
  const { id, fallback, version, hash, removedAt, reason, policy, by, auditSeq } = tombstone;
  return {
    checkpoint_id: id,
    task_id: task,
    seq,
    version,
    hash,
    fallback_id: fallback,
    removed_at: removedAt,
    reason,
    retention_policy: policy,
    removed_by: by,
    audit_seq: auditSeq,
  };
}

/** The ids of those checkpoints of one tenant that were removed. */
export async function readRemoved(
  reader: Reader,
  keys: TenantKeys,
  ids: readonly string[],
): Promise<ReadonlySet<string>> {
  const places = (await reader.getMany(ids.map((id) => keys.id(id)))).map((value) =>
    value === undefined ? null : decodePlace(value),
  );
  const placed = places.flatMap((place, i) => (place === null ? [] : [{ id: ids[i] as string, place }]));
  const values = await reader.getMany(placed.map(({ place }) => keys.tombstone(place.task, place.seq)));
  const removed = placed.filter(({ id }, i) => decodeTombstone(values[i])?.id === id);
  return new Set(removed.map(({ id }) => id));
}
