/**
 * The index of the blocks that concern a task, so that a list of its readers reads no others. The entries in the blocks decide what is listed: a row
 * without an entry shows nothing.
 */
import type { AccessEntry } from "../../protocol/access-log.ts";
import { isToken } from "../../protocol/ids.ts";
import type { Tx } from "../../store/store.ts";
import type { TenantKeys } from "../kv/keyspace.ts";

const NOTHING = new Uint8Array(0);

/** A refused request may name anything as its task: no task has such a name. */
export function tasksIn(entries: readonly Pick<AccessEntry, "task_id" | "task_ids">[]): readonly string[] {
  const tasks = new Set<string>();
  for (const { task_id, task_ids } of entries) {
    if (task_id !== undefined) tasks.add(task_id);
    for (const one of task_ids ?? []) tasks.add(one);
  }
  return [...tasks].filter(isToken);
}

interface IndexedBlock {
  readonly seq: number;
  readonly entries: readonly AccessEntry[];
}

export function indexBlock(tx: Tx, keys: TenantKeys, { seq, entries }: IndexedBlock): void {
  for (const task of tasksIn(entries)) tx.set(keys.accessTask(task, seq), NOTHING);
}

/** Returns the number of rows. */
export function clearBlockIndex(tx: Tx, keys: TenantKeys, { seq, entries }: IndexedBlock): number {
  const tasks = tasksIn(entries);
  for (const task of tasks) tx.clear(keys.accessTask(task, seq));
  return tasks.length;
}
