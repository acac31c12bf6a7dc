/** What leads to the recoveries that lie in the heads of tasks: which are going on, which are due and when, and how many there are. */
import type { Recovery } from "../../protocol/recovery-record.ts";
import type { Task } from "../../protocol/task.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { type AttemptKind, countAttempt, countRecovery } from "../kv/counters.ts";
import type { DueIndex } from "../kv/due-index.ts";
import { parseRecoveryDue, systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeSoundHead } from "../task/head.ts";

const NOTHING = new Uint8Array(0);

/** Of which type the agent should be that goes on, as far as that is known before the handoff is examined; "" when nobody said. */
export function wantedType({ recovery, agent_type }: Pick<Task, "recovery" | "agent_type">): string {
  return recovery?.wish?.to_agent_type ?? agent_type ?? "";
}

/** null: no attempt is open. */
function attemptOf(head: Task | null): AttemptKind | null {
  if (head?.recovery?.state !== "attempted") return null;
  return { tenant: head.tenant, agentType: wantedType(head) };
}

/** Of a head that is about to be written. */
export function keepRecovery(tx: Tx, keys: TenantKeys, before: Task | null, head: Task): void {
  const was: Recovery | null = before?.recovery ?? null;
  const { recovery: is, tenant, task_id: task } = head;
  countAttempt(tx, attemptOf(before), attemptOf(head));
  if (is === null || (is === was && before !== null && wantedType(before) === wantedType(head))) return;
  const due = (at: string): Bytes => systemKeys.recoveryDue(Date.parse(at), tenant, task);
  const dueBefore = was?.due_at ?? null;
  if (dueBefore !== null && dueBefore !== is.due_at) tx.clear(due(dueBefore));
  if (is.due_at !== null) tx.set(due(is.due_at), Buffer.from(wantedType(head)));
  if (is.state === "idle") tx.clear(keys.recovering(task));
  else tx.set(keys.recovering(task), NOTHING);
  countRecovery(tx, was?.state ?? null, is.state);
}

export interface RecoveryPlace {
  readonly tenant: string;
  readonly task: string;
}

/** A recovery that is due, and whom it waits for: enough to pass it over without a look at its task. */
export type DuePlace = RecoveryPlace & AttemptKind;

export function duePlaceOf(head: Task): DuePlace {
  return { tenant: head.tenant, task: head.task_id, agentType: wantedType(head) };
}

/** Tasks whose recovery somebody has to look at by then. */
export function recoveriesDue(untilMs: number): DueIndex<DuePlace, Task> {
  return {
    range: systemKeys.recoveriesDueBefore(untilMs + 1),
    placeOf: ({ key, value }) => ({ ...parseRecoveryDue(key), agentType: Buffer.from(value).toString() }),
    recordKey: ({ tenant, task }) => tenantKeys(tenant).task(task),
    decode: (value) => (value === undefined ? null : decodeSoundHead(value)),
  };
}
