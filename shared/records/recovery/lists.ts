/** Reads recoveries for operators: a page of the open ones, and the owner that would lose its task by one. */

import { hasRecovery, recoveryStateOf } from "../../lifecycle/task.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Policies } from "../../protocol/policy.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { RecoveryPage, RecoveryPreview } from "../../protocol/recovery-queries.ts";
import type { Task } from "../../protocol/task.ts";
import type { Reader } from "../../store/store.ts";
import { readTask } from "../checkpoint/lookup.ts";
import { type CursorKind, openCursor, sealCursor } from "../kv/cursor.ts";
import { after, endingName, tenantKeys } from "../kv/keyspace.ts";
import { readHeads } from "../task/task-list.ts";
import { redactedView } from "../task/task-view.ts";
import type { RecoveryPlace } from "./due.ts";
import { ownerAliveUntil } from "./leases.ts";

/** The size of the heads on a page; the last head may exceed it. */
const PAGE_BYTES = LIMITS.reply_bytes_max / 2;

/** The number of tasks read at once. */
const SLICE = 100;

/** In the order of the tasks' names. A page ends early after a scan of many recoveries in other states. */
export async function listRecoveries(
  reader: Reader,
  tenant: string,
  { state, limit, cursor }: QueryParams<"recoveries">,
): Promise<RecoveryPage> {
  const keys = tenantKeys(tenant);
  const kind: CursorKind = `recoveries/${tenant}/${state ?? ""}`;
  const { begin, end } = keys.recoveringTasks();
  let last = cursor === undefined ? null : openCursor(kind, cursor);
  const tasks: Task[] = [];
  let bytes = 0;
  for (let scanned = 0; ; ) {
    const from = last === null ? begin : after(keys.recovering(last));
    const { rows, more } = await reader.getRange({ begin: from, end }, { limit: SLICE });
    const names = rows.map(({ key }) => endingName(key));
    const heads = await readHeads(reader, tenant, names);
    for (const [i, head] of heads.entries()) {
      last = names[i] as string;
      if (head === null || !hasRecovery(head)) continue;
      if (state !== undefined && recoveryStateOf(head) !== state) continue;
      const view = redactedView(head);
      tasks.push(view);
      bytes += Buffer.byteLength(JSON.stringify(view));
      if (tasks.length < limit && bytes < PAGE_BYTES) continue;
      const isLast = !more && i === names.length - 1;
      return { tasks, ...(!isLast && { cursor: sealCursor(kind, last) }) };
    }
    scanned += names.length;
    if (!more || last === null) return { tasks };
    if (scanned >= LIMITS.recoveries_scan_count_max) return { tasks, cursor: sealCursor(kind, last) };
  }
}

/** null: the task has no owner, or does not exist. */
export async function readOwner(
  reader: Reader,
  { tenant, task }: RecoveryPlace,
  policies: Policies,
  nowMs: number,
): Promise<RecoveryPreview["owner"]> {
  const head = await readTask(reader, tenant, task);
  if (head === null || head.owner === null) return null;
  const untilMs = await ownerAliveUntil(reader, head, policies, nowMs);
  const alive_until = untilMs > nowMs ? new Date(untilMs).toISOString() : null;
  return { agent_id: head.owner, fence: head.fence, alive_until };
}
