/** Tasks by who has them: the heads of some tasks, and a bounded walk over all of a tenant's. */
import { isEndedWork, type TaskRecord } from "../../lifecycle/task.ts";
import type { Reader } from "../../store/store.ts";
import { parseTask, tenantKeys } from "../kv/keyspace.ts";
import { decodeSoundHead } from "./head.ts";

/** In the order asked for; null where there is no such task, or its head is damaged. */
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
 * Tasks under way that somebody owns, among the next `scan` tasks behind `after` in the order of their names; `last`: where the walk
 * ended, null when there are no more.
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
