/**
 * The index of recoveries, whose records are in the heads of their tasks: the open ones, the due ones by
 * time, and their counts.
 */
import {
  type Budget,
  hasRecovery,
  recoveryDueOf,
  recoveryStateOf,
  type TaskRecord,
} from "../../lifecycle/task.ts";
import type { RecoveryState } from "../../protocol/recovery-states.ts";
import type { Task } from "../../protocol/task.ts";
import type { Bytes, Tx } from "../../store/store.ts";
import { type AttemptKind, countAttempt, countRecovery } from "../kv/counters.ts";
import type { DueIndex } from "../kv/due-index.ts";
import { parseRecoveryDue, systemKeys, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeSoundHead } from "../task/head.ts";

const NOTHING = new Uint8Array(0);

/**
 * The type of agent that should continue the task, as far as it is known before a handoff is requested; "" if
 * it is not.
 */
export function wantedType({
  budget,
  agent_type,
}: {
  readonly budget: Pick<Budget, "choice"> | null;
  readonly agent_type: string | null;
}): string {
  return budget?.choice?.to_agent_type ?? agent_type ?? "";
}

interface Indexed {
  readonly state: RecoveryState;
  readonly dueAt: string | null;
  readonly wanted: AttemptKind;
}

/** null: the task has no recovery. */
function indexedAs(task: TaskRecord | null): Indexed | null {
  if (task === null || !hasRecovery(task)) return null;
  const wanted = { tenant: task.tenant, agentType: wantedType(task) };
  const indexed = { state: recoveryStateOf(task), dueAt: recoveryDueOf(task), wanted };
  if (!isUnlistedBlock(task)) return indexed;
  if (task.budget === null) return null;
  return { ...indexed, state: task.budget.resumed ? "resumed" : "idle" };
}

/** True for a block that an earlier version did not index, because a handoff caused it. */
export function isUnlistedBlock({ work }: Pick<TaskRecord, "work">): boolean {
  return work.kind === "blocked" && work.by === "handoff" && work.taken_by === null;
}

function attemptOf(indexed: Indexed | null): AttemptKind | null {
  return indexed?.state === "attempted" ? indexed.wanted : null;
}

/** Updates the index for a head that is about to be written. */
export function indexRecovery(tx: Tx, keys: TenantKeys, before: TaskRecord | null, head: TaskRecord): void {
  const [was, is] = [indexedAs(before), indexedAs(head)];
  const { tenant, task_id: task } = head;
  countAttempt(tx, attemptOf(was), attemptOf(is));
  const isSame =
    was?.state === is?.state && was?.dueAt === is?.dueAt && was?.wanted.agentType === is?.wanted.agentType;
  if (isSame) return;
  const due = (at: string): Bytes => systemKeys.recoveryDue(Date.parse(at), tenant, task);
  const dueBefore = was?.dueAt ?? null;
  const dueAt = is?.dueAt ?? null;
  const state = is?.state ?? null;
  if (dueBefore !== null && dueBefore !== dueAt) tx.clear(due(dueBefore));
  if (is !== null && dueAt !== null) tx.set(due(dueAt), Buffer.from(is.wanted.agentType));
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

export function duePlaceOf({ tenant, task_id: task, recovery, agent_type }: Task): DuePlace {
  return { tenant, task, agentType: wantedType({ budget: recovery, agent_type }) };
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
