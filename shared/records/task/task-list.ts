/** Reading heads: those of named tasks, and a bounded scan over the owned tasks of a tenant. */
import { isEndedWork, type TaskRecord } from "../../lifecycle/task.ts";
import type { Reader } from "../../store/store.ts";
import { parseTask, tenantKeys } from "../kv/keyspace.ts";
import { decodeSoundHead } from "./head.ts";

/** The heads in the order of `tasks`; null where there is no such task, or its head is damaged. */
export async function readHeads(
  reader: Reader,
  tenant: string,
  tasks: readonly string[],
): Promise<(TaskRecord | null)[]> {
  const keys = tenantKeys(tenant);
  const rows = await reader.getMany(tasks.map((task) => keys.task(task)));
  return rows.map((row) => (row === undefined ? null : decodeSoundHead(row)));
}

/**
 * The owned tasks that have not ended, among the next `scan` tasks after `after` in the order of their names.
 * `last`: the task at which the scan stopped, null at the end.
 */
export async function readOwned(
  reader: Reader,
  tenant: string,
  after: string | null,
  scan: number,
): Promise<{ tasks: TaskRecord[]; last: string | null }> {
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.tasks();
  const from = after === null ? begin : Buffer.concat([keys.task(after), Buffer.from([0x00])]);
  const { rows, more } = await reader.getRange({ begin: from, end }, { limit: scan });
  const heads = rows.flatMap(({ value }) => decodeSoundHead(value) ?? []);
  const tasks = heads.filter((head) => head.owner !== null && !isEndedWork(head));
  const last = rows.at(-1);
  return { tasks, last: more && last !== undefined ? parseTask(last.key) : null };
}
