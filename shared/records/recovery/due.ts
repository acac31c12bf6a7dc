/**
 * The index of recoveries, whose records are in the heads of their tasks: the open ones, the due ones by
 * time, and their counts.
 */
import { expectedRecoveryType } from "../../lifecycle/routing.ts";
import { hasRecovery, recoveryDueOf, recoveryStateOf, type TaskRecord } from "../../lifecycle/task.ts";
import type { RecoveryState } from "../../protocol/recovery-states.ts";
import type { Task } from "../../protocol/task.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { type AttemptKind, countAttempt, countRecovery } from "../kv/counters.ts";
import { type DueIndex, parseRecoveryDue } from "../kv/due-index.ts";
import { systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeSoundHead } from "../task/head.ts";

const NOTHING = new Uint8Array(0);

interface Indexed {
  readonly state: RecoveryState;
  readonly dueAt: string | null;
  readonly kind: AttemptKind;
}

/**
 * The kind of a task's attempts: the same before and after an attempt, so that admission counts the attempts
 * that it admitted. `expected` null: the recovery point decides on the type, with the policy of its author's
 * type. Those attempts have a kind of their own for each author's type.
 */
function kindOf(
  { tenant, agent_type: author }: Pick<Task, "tenant" | "agent_type">,
  expected: string | null,
): AttemptKind {
  return { tenant, agentType: expected ?? `after ${author ?? "no agent"}` };
}

/** null: the task has no recovery. */
function indexedAs(task: TaskRecord | null): Indexed | null {
  if (task === null || !hasRecovery(task)) return null;
  const kind = kindOf(task, expectedRecoveryType(task));
  const indexed = { state: recoveryStateOf(task), dueAt: recoveryDueOf(task), kind };
  if (!isUnlistedBlock(task)) return indexed;
  if (task.budget === null) return null;
  return { ...indexed, state: task.budget.resumed ? "resumed" : "idle" };
}

/** True for a block that an earlier version did not index, because a handoff caused it. */
export function isUnlistedBlock({ work }: Pick<TaskRecord, "work">): boolean {
  return work.kind === "blocked" && work.by === "handoff" && work.taken_by === null;
}

function attemptOf(indexed: Indexed | null): AttemptKind | null {
  return indexed?.state === "attempted" ? indexed.kind : null;
}

/** Updates the index for a head that is about to be written. */
export function indexRecovery(tx: Tx, keys: TenantKeys, before: TaskRecord | null, head: TaskRecord): void {
  const [was, is] = [indexedAs(before), indexedAs(head)];
  const { tenant, task_id: task } = head;
  countAttempt(tx, attemptOf(was), attemptOf(is));
  const isSame =
    was?.state === is?.state && was?.dueAt === is?.dueAt && was?.kind.agentType === is?.kind.agentType;
  if (isSame) return;
  const due = (at: string): Bytes => systemKeys.recoveryDue(Date.parse(at), tenant, task);
  const dueBefore = was?.dueAt ?? null;
  const dueAt = is?.dueAt ?? null;
  const state = is?.state ?? null;
  if (dueBefore !== null && dueBefore !== dueAt) tx.clear(due(dueBefore));
  if (is !== null && dueAt !== null) tx.set(due(dueAt), Buffer.from(is.kind.agentType));
  if (state === null || state === "idle") tx.clear(keys.recovering(task));
  else tx.set(keys.recovering(task), NOTHING);
  countRecovery(tx, was?.state ?? null, state);
}

export interface RecoveryPlace {
  readonly tenant: string;
  readonly task: string;
}

/** A due recovery and the agents it waits for, so that it can be skipped without reading its task. */
export type DuePlace = RecoveryPlace & AttemptKind;

export function duePlaceOf(task: Task): DuePlace {
  return { task: task.task_id, ...kindOf(task, task.recovery?.to_agent_type ?? null) };
}

/** The tasks whose recovery is due by `untilMs`. */
export function recoveriesDue(untilMs: number): DueIndex<DuePlace, TaskRecord> {
  return {
    range: systemKeys.recoveriesDueBefore(untilMs + 1),
    placeOf: ({ key, value }) => ({ ...parseRecoveryDue(key), agentType: Buffer.from(value).toString() }),
    recordKey: ({ tenant, task }) => tenantKeys(tenant).task(task),
    decode: (value) => (value === undefined ? null : decodeSoundHead(value)),
  };
}
