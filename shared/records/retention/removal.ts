/**
 * The removal of one checkpoint: its row, its earlier versions, its chunks and its links go, and a tombstone
 * takes its position. The indexer follows the transition and clears its entries in the search index.
 */
import type { Decision } from "../../lifecycle/decision.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { RemovalReason } from "../../protocol/retention.ts";
import type { KeyRange, Reader, Tx } from "../../store/store.ts";
import { clearReferences } from "../artifacts/references.ts";
import { decodePlace } from "../checkpoint/checkpoint-location.ts";
import type { OrderEntry } from "../checkpoint/order.ts";
import { systemKeys, type TenantKeys } from "../kv/keyspace.ts";
import { decodeTombstone, writeTombstone } from "./tombstone.ts";

const DAY_MS = 86_400_000;

/** The number of rows in one read of their sizes. */
const SLICE = 100;

export interface Removed {
  readonly entry: OrderEntry;
  readonly checkpoint: Checkpoint;
  readonly reason: RemovalReason;
}

/** Clears the records. The decision's newest transition is the removal. */
export function clearCheckpoint(
  tx: Tx,
  keys: TenantKeys,
  decision: Decision,
  { entry, checkpoint, reason }: Removed,
): Promise<void> {
  const { seq, parent_ids: parents } = checkpoint.metadata;
  const { retention_policy: policy, retain_until: retainUntil } = checkpoint.compliance;
  return clearEntry(tx, keys, decision, { entry, seq, parents, policy, retainUntil, reason });
}

/** A checkpoint that may be corrupt. */
export interface RemovedEntry {
  readonly entry: OrderEntry;
  readonly seq: number;
  readonly parents: readonly string[];
  readonly policy: string;
  readonly retainUntil: string | undefined;
  readonly reason: RemovalReason;
}

/** As {@link clearCheckpoint}. */
export async function clearEntry(
  tx: Tx,
  keys: TenantKeys,
  decision: Decision,
  { entry, seq, parents, policy, retainUntil, reason }: RemovedEntry,
): Promise<void> {
  const { tenant, task, actor } = decision.circumstances;
  const { id } = entry;
  const fallback = await livingFallback(tx, keys, entry.fallback);
  await clearReferences(tx, keys, { task, id }, Date.parse(decision.at));
  tx.clear(keys.checkpoint(task, id));
  tx.clearRange(keys.versions(task, id));
  tx.clearRange(keys.chunks(task, id));
  tx.clearRange(keys.childrenOf(task, id));
  for (const parent of parents) tx.clear(keys.child(task, parent, id));
  tx.clear(keys.order(task, seq));
  // Earlier versions of the fleet wrote an entry for the end of the retention.
  if (retainUntil !== undefined) {
    const day = Math.ceil(Date.parse(retainUntil) / DAY_MS);
    tx.clear(systemKeys.retention(day, tenant, task, id));
  }
  tx.addI64(systemKeys.count("removed"), 1n);
  writeTombstone(tx, keys, task, seq, {
    ...{ id, fallback, version: entry.version, hash: entry.hash, reason, policy },
    ...{ removedAt: decision.at, by: actor, auditSeq: decision.task.audit_seq },
  });
}

/**
 * What a removed checkpoint fell back to, or what is left of that. So a search for a recovery point does not
 * pass one tombstone after the other.
 */
async function livingFallback(tx: Tx, keys: TenantKeys, id: string | null): Promise<string | null> {
  if (id === null) return null;
  const value = await tx.get(keys.id(id));
  if (value === undefined) return id;
  const { task, seq } = decodePlace(value);
  const tombstone = decodeTombstone(await tx.get(keys.tombstone(task, seq)));
  return tombstone === null ? id : tombstone.fallback;
}

/** The bytes that the records of a checkpoint take in the store, without the copies that the engine keeps. */
export async function storedBytes(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  id: string,
): Promise<number> {
  const key = keys.checkpoint(task, id);
  const row = await reader.get(key);
  let bytes = row === undefined ? 0 : key.length + row.length;
  for (const range of [keys.versions(task, id), keys.chunks(task, id)]) bytes += await bytesIn(reader, range);
  return bytes;
}

async function bytesIn(reader: Reader, { begin, end }: KeyRange): Promise<number> {
  let bytes = 0;
  for (let from = begin; ; ) {
    const { rows, more } = await reader.getRange({ begin: from, end }, { limit: SLICE });
    for (const { key, value } of rows) bytes += key.length + value.length;
    const last = rows.at(-1);
    if (!more || last === undefined) return bytes;
    from = Buffer.concat([last.key, Buffer.of(0)]);
  }
}
