/** What leads to the recoveries that lie in the heads of tasks: which are going on, which are due and when, and how many there are. */
import type { Recovery } from "../../protocol/recovery-record.ts";
import type { Task } from "../../protocol/task.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { countRecovery } from "../count.ts";
import type { DueIndex } from "../due.ts";
import { decodeSoundHead } from "../head.ts";
import { parseRecoveryDue, systemKeys, type TenantKeys, tenantKeys } from "../keyspace.ts";

const NOTHING = new Uint8Array(0);

/** Of a head that is about to be written. */
export function keepRecovery(tx: Tx, keys: TenantKeys, before: Task | null, head: Task): void {
  const was: Recovery | null = before?.recovery ?? null;
  const { recovery: is, tenant, task_id: task } = head;
  if (is === null || is === was) return;
  const due = (at: string): Bytes => systemKeys.recoveryDue(Date.parse(at), tenant, task);
  const dueBefore = was?.due_at ?? null;
  if (dueBefore !== null && dueBefore !== is.due_at) tx.clear(due(dueBefore));
  if (is.due_at !== null) tx.set(due(is.due_at), NOTHING);
  if (is.state === "idle") tx.clear(keys.recovering(task));
  else tx.set(keys.recovering(task), NOTHING);
  countRecovery(tx, was?.state ?? null, is.state);
}

export interface RecoveryPlace {
  readonly tenant: string;
  readonly task: string;
}

/** Tasks whose recovery somebody has to look at by then. */
export function recoveriesDue(untilMs: number): DueIndex<RecoveryPlace, Task> {
  return {
    range: systemKeys.recoveriesDueBefore(untilMs + 1),
    placeOf: parseRecoveryDue,
    recordKey: ({ tenant, task }) => tenantKeys(tenant).task(task),
    decode: (value) => (value === undefined ? null : decodeSoundHead(value)),
  };
}
