/** What leads to the recoveries that lie in the heads of tasks: which are going on, which are due and when, and how many there are. */
import type { Recovery } from "../../protocol/recovery-record.ts";
import type { Task } from "../../protocol/task.ts";
import type { Bytes, Reader, Tx } from "../../store/store.ts";
import { countRecovery } from "../count.ts";
import { decodeSoundHead } from "../head.ts";
import { after, parseRecoveryDue, systemKeys, type TenantKeys, tenantKeys } from "../keyspace.ts";

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

/** Tasks whose recovery somebody has to look at by then, the longest overdue first; of all tenants. `passOver`: not these, and they keep none of the others out. */
export async function readDueRecoveries(
  reader: Reader,
  untilMs: number,
  limit: number,
  passOver: (place: RecoveryPlace) => boolean = () => false,
): Promise<Task[]> {
  const found: Task[] = [];
  for (let range = systemKeys.recoveriesDueBefore(untilMs + 1); ; ) {
    const { rows, more } = await reader.getRange(range, { limit });
    const due = rows.map(({ key }) => parseRecoveryDue(key)).filter((place) => !passOver(place));
    const heads = await reader.getMany(due.map(({ tenant, task }) => tenantKeys(tenant).task(task)));
    found.push(...heads.flatMap((value) => (value && decodeSoundHead(value)) ?? []));
    const last = rows.at(-1);
    if (found.length >= limit || !more || last === undefined) return found.slice(0, limit);
    range = { ...range, begin: after(last.key) };
  }
}
