/** The index of tasks by the state of their shredding, and the list of a tenant. */
import type { TaskRecord } from "../../../lifecycle/task.ts";
import type { QueryParams } from "../../../protocol/queries.ts";
import { SHRED_STATES, type ShredPage } from "../../../protocol/shred.ts";
import type { Reader, Tx } from "../../../store/store.ts";
import { openCursor, sealCursor } from "../../kv/cursor.ts";
import { after, systemKeys } from "../../kv/keyspace.ts";
import { readHeads } from "../../task/task-list.ts";
import { parseShred } from "./shred-keys.ts";

const NOTHING = new Uint8Array(0);

/** Updates the index for a head that is about to be written. */
export function indexShred(tx: Tx, before: TaskRecord | null, { tenant, task_id, shred }: TaskRecord): void {
  const [was, is] = [before?.shred?.state, shred?.state];
  if (was === is) return;
  if (was !== undefined) tx.clear(systemKeys.shred(was, tenant, task_id));
  if (is !== undefined) tx.set(systemKeys.shred(is, tenant, task_id), NOTHING);
}

export async function listShreds(
  reader: Reader,
  tenant: string,
  { state, limit, cursor }: QueryParams<"shreds">,
): Promise<ShredPage> {
  const kind = `shreds/${tenant}/${state ?? ""}`;
  const states = state === undefined ? SHRED_STATES : [state];
  const [at = states[0], last = ""] = cursor === undefined ? [] : openCursor(kind, cursor).split("/");
  const shreds: ShredPage["shreds"] = [];
  for (const one of states.slice(Math.max(0, states.indexOf(at as (typeof states)[number])))) {
    const { begin, end } = systemKeys.shredsOf(one, tenant);
    const from = one === at && last !== "" ? after(systemKeys.shred(one, tenant, last)) : begin;
    const { rows, more } = await reader.getRange({ begin: from, end }, { limit: limit - shreds.length });
    const tasks = rows.map(({ key }) => parseShred(key).task);
    for (const head of await readHeads(reader, tenant, tasks))
      if (head?.shred != null) shreds.push({ ...head.shred, task_id: head.task_id });
    const task = tasks.at(-1);
    const isLast = !more && one === states.at(-1);
    if (shreds.length >= limit && task !== undefined && !isLast)
      return { shreds, cursor: sealCursor(kind, `${one}/${task}`) };
  }
  return { shreds };
}
