/** A page of the tasks of a tenant, in the order of their names, each with the progress of its newest checkpoint. */
import type { TaskRecord } from "../../lifecycle/task.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryParams, TaskPage } from "../../protocol/queries.ts";
import type { ListedTask } from "../../protocol/task.ts";
import type { KeyRange, Reader } from "../../store/store.ts";
import { findInTask } from "../checkpoint/lookup.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { after, parseTask, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeSoundHead } from "./head.ts";
import { redactedView } from "./task-view.ts";

/** The size of the tasks on a page; the last one may exceed it. */
const PAGE_BYTES = LIMITS.reply_bytes_max / 2;

/** The number of heads read at once. */
const SLICE = 100;

type Filter = Pick<QueryParams<"tasks">, "task_id" | "state" | "phase" | "agent_id" | "agent_type">;

/** A page ends early after a scan of many tasks that do not match. A damaged head is named, so that it does not hide the others. */
export async function listTasks(
  reader: Reader,
  tenant: string,
  { limit, cursor, ...filter }: QueryParams<"tasks">,
): Promise<TaskPage> {
  const keys = tenantKeys(tenant);
  const kind = `tasks/${tenant}/${filterText(filter)}`;
  const { begin, end } = rangeOf(keys, filter);
  let last = cursor === undefined ? null : openCursor(kind, cursor);
  const tasks: ListedTask[] = [];
  const corrupt: string[] = [];
  let bytes = 0;
  for (let scanned = 0; ; ) {
    const from = last === null ? begin : after(keys.task(last));
    const { rows, more } = await reader.getRange({ begin: from, end }, { limit: SLICE });
    for (const [i, { key, value }] of rows.entries()) {
      last = parseTask(key);
      const listed = await listedTask(reader, keys, decodeSoundHead(value), filter);
      if (listed === null) corrupt.push(last);
      if (listed == null) continue;
      tasks.push(listed);
      bytes += Buffer.byteLength(JSON.stringify(listed));
      if (tasks.length < limit && bytes < PAGE_BYTES) continue;
      const isLast = !more && i === rows.length - 1;
      return { tasks, corrupt, ...(!isLast && { cursor: sealCursor(kind, last) }) };
    }
    scanned += rows.length;
    if (!more || last === null) return { tasks, corrupt };
    if (scanned >= LIMITS.tasks_scan_count_max) return { tasks, corrupt, cursor: sealCursor(kind, last) };
  }
}

function rangeOf(keys: TenantKeys, { task_id }: Filter): KeyRange {
  if (task_id === undefined) return keys.tasks();
  const key = keys.task(task_id);
  return { begin: key, end: after(key) };
}

/** undefined: the task does not match; null: its head is damaged. */
async function listedTask(
  reader: Reader,
  keys: TenantKeys,
  head: TaskRecord | null,
  filter: Filter,
): Promise<ListedTask | null | undefined> {
  if (head === null) return null;
  const view = redactedView(head);
  const { state, phase, agent_id, agent_type } = filter;
  if (state !== undefined && view.state !== state) return undefined;
  if (phase !== undefined && view.phase !== phase) return undefined;
  if (agent_type !== undefined && view.agent_type !== agent_type) return undefined;
  // An owner that has not written yet is not the agent of the newest checkpoint.
  if (agent_id !== undefined && view.agent_id !== agent_id && view.owner !== agent_id) return undefined;
  if (view.latest_id === null) return { ...view, progress_percent: null };
  const found = await findInTask(reader, keys, view.task_id, view.latest_id);
  const progress = found.sound ? found.checkpoint.execution_state.progress_percent : undefined;
  return { ...view, progress_percent: progress ?? null };
}

const filterText = ({ task_id, state, phase, agent_id, agent_type }: Filter): string =>
  [task_id, state, phase, agent_id, agent_type].map((one) => one ?? "").join("/");
