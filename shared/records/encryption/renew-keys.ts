/**
 * The key of a task whose last checkpoint was removed. It encrypted that content, so it is destroyed, as shredding does, and copies of the removed rows cannot be
 * read with the keys of the store. What stays of the task is read further and is little: its record, and those of a mission. These rows are written again with
 * a new key in the same transaction.
 */
import type { KeyRange, KeyValue, Tx } from "../../store/store.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { EncryptedTx } from "./encrypted-tx.ts";
import { keyPlaceOf } from "./keys/place.ts";
import { isUnreadable } from "./sealed-value.ts";

/** Of checkpoints. While one row is there, the key is needed; the order is the first to tell. */
const CONTENT = ["order", "checkpoints", "versions", "chunks"] as const;
/** Encrypted with the key of the task too. */
const REST = ["tasks", "missions", "sorties", "mission_locks", "mission_messages"] as const;
/** All that is encrypted with the key of a task. A test compares them with the table of the layout. */
export const TASK_KEY_SPACES = [...CONTENT, ...REST] as const;
/** A mission with more than these keeps its key: they would not fit into the transaction of the removal. */
const ROWS_MAX = 500;
const BYTES_MAX = 300_000;

/** To be called after the removal of checkpoints, and before the transaction writes the record of the task. */
export async function renewKeysOfEmptied(tx: Tx, tenant: string, task: string): Promise<void> {
  if (!(tx instanceof EncryptedTx)) return;
  const keys = tenantKeys(tenant);
  for (const subspace of CONTENT) {
    const { rows } = await tx.snapshot.getRange(keys.ofTask(subspace, task), { limit: 1 });
    if (rows.length > 0) return;
  }
  const rest = await restOf(tx, keys, task);
  if (rest === null) return;
  tx.destroyKeys(keyPlaceOf(tenant, task));
  for (const { key, value } of rest) tx.set(key, value);
}

/** null: they are too many, or one is damaged, and a backup may bring it back. */
async function restOf(tx: Tx, keys: TenantKeys, task: string): Promise<readonly KeyValue[] | null> {
  const all: KeyValue[] = [];
  let bytes = 0;
  for (const subspace of REST) {
    const range = withItself(keys.ofTask(subspace, task));
    const { rows, more } = await tx.getRange(range, { limit: ROWS_MAX + 1 - all.length });
    all.push(...rows);
    for (const { key, value } of rows) bytes += key.length + value.length;
    if (more || all.length > ROWS_MAX || bytes > BYTES_MAX) return null;
    if (rows.some(({ value }) => isUnreadable(value))) return null;
  }
  return all;
}

/** The range of the keys below one, with that key. */
function withItself({ begin, end }: KeyRange): KeyRange {
  return { begin: begin.subarray(0, -1), end };
}
