/**
 * Plans removals: the checkpoints of a task that retention would remove now. Only checkpoints that may be due
 * by their entry in the order are opened, and nothing is planned for one that does not verify.
 */
import { isHeld } from "../../lifecycle/retention/hold-rules.ts";
import {
  judge,
  mayGoYoung,
  type Needs,
  oldEnoughAt,
  promisedUntil,
  type RetainedCheckpoint,
  type RetentionRules,
} from "../../lifecycle/retention/rules.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { idTime } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type Policies, policyOf, retentionFloorOf } from "../../protocol/policy.ts";
import { DEFAULT_RETENTION, type RemovalReason } from "../../protocol/retention.ts";
import type { Reader } from "../../store/store.ts";
import { verifyAncestry } from "../checkpoint/ancestry.ts";
import { findMany } from "../checkpoint/lookup.ts";
import { decodeOrder, type OrderEntry } from "../checkpoint/order.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import { readNeeds, readNewest } from "./needs.ts";
import { storedBytes } from "./removal.ts";

/** The number of order entries in one read. */
const SLICE = 100;
/** The shortest time that a policy can promise. */
const PROMISE_MS_MIN = 86_400_000;

export interface PlanContext {
  readonly policies: Policies;
  readonly nowMs: number;
  /** Values of an operator in place of the settings. */
  readonly rules?: Partial<RetentionRules> | undefined;
}

export interface PlannedRemoval {
  readonly entry: OrderEntry;
  readonly checkpoint: Checkpoint;
  readonly reason: RemovalReason;
  /** The bytes that its records take in the store. */
  readonly bytes: number;
}

export interface TaskPlan {
  /** The state of the task for which the plan holds. */
  readonly auditSeq: number;
  readonly removals: readonly PlannedRemoval[];
  /** The position at which the next plan for the task continues; null: nothing is left. */
  readonly next: number | null;
}

/** What one plan, or several in one snapshot, may read. */
export interface PlanBudget {
  rows: number;
  bytes: number;
  removals: number;
}

export const newBudget = (): PlanBudget => ({
  rows: LIMITS.scrub_step_rows_max,
  bytes: LIMITS.scrub_step_bytes_max,
  removals: LIMITS.removal_count_max,
});

export function isSpentBudget({ rows, bytes, removals }: PlanBudget): boolean {
  return rows <= 0 || bytes <= 0 || removals <= 0;
}

export function rulesOf(
  { tenant, agent_type }: Pick<TaskRecord, "tenant" | "agent_type">,
  { policies, rules = {} }: Pick<PlanContext, "policies" | "rules">,
): RetentionRules {
  const floor = retentionFloorOf(policies, tenant);
  return { ...policyOf(policies, tenant, agent_type ?? "").retention, ...rules, floor };
}

/** The part of a task that a plan covers. */
export interface PlanPart {
  /** The first position. */
  readonly from: number;
  /** The position before which the plan ends; without it, the plan covers the task to its newest checkpoint. */
  readonly until?: number | undefined;
  readonly budget: PlanBudget;
}

export async function planTask(
  reader: Reader,
  task: TaskRecord,
  context: PlanContext,
  { from, until, budget }: PlanPart,
): Promise<TaskPlan> {
  const auditSeq = task.audit_seq;
  const rules = rulesOf(task, context);
  const keys = tenantKeys(task.tenant);
  const newest = await readNewest(reader, keys, task.task_id, rules);
  budget.rows -= 1 + newest.length;
  if (newest.length === 0 || isHeld(task)) return { auditSeq, removals: [], next: null };
  const kept = keptByCount(task, rules, newest);
  const mayBeDue = dueFilter(task, rules, newest, context.nowMs);
  const removals: PlannedRemoval[] = [];
  let needs: Needs | null = null;
  const end = until === undefined ? keys.orderRange(task.task_id).end : keys.order(task.task_id, until);
  for (let at = from; ; ) {
    const range = { begin: keys.order(task.task_id, at), end };
    const { rows, more } = await reader.getRange(range, { limit: SLICE });
    budget.rows -= rows.length;
    for (const { key, value } of rows) {
      const seq = parseSeq(key);
      at = seq + 1;
      if (kept.has(seq)) continue;
      const entry = decodeOrder(value);
      // The scrub finds the damaged entry.
      if (entry === null || !mayBeDue(entry)) continue;
      const [found] = await findMany(reader, keys, task.task_id, [{ seq, entry }]);
      if (found?.sound !== true) continue;
      budget.bytes -= found.bytes;
      needs ??= await readNeeds(reader, task, { ...context, rules });
      const checkpoint = await retained(reader, task, found.checkpoint);
      const judgement = judge(task, checkpoint, needs, { rules, nowMs: context.nowMs });
      if ("remove" in judgement) {
        const bytes = await storedBytes(reader, keys, task.task_id, entry.id);
        removals.push({ entry, checkpoint: found.checkpoint, reason: judgement.remove, bytes });
        budget.removals -= 1;
      }
      if (isSpentBudget(budget)) return { auditSeq, removals, next: at };
    }
    if (!more) return { auditSeq, removals, next: null };
    if (isSpentBudget(budget)) return { auditSeq, removals, next: at };
  }
}

/** The positions that are kept at any age. */
function keptByCount(
  task: TaskRecord,
  rules: RetentionRules,
  newest: readonly number[],
): ReadonlySet<number> {
  const isCompleted = task.work.kind === "ended" && task.work.as === "completed";
  return new Set(isCompleted && rules.completed_days !== null ? [] : newest.slice(0, rules.keep));
}

/** Whether a checkpoint may be due, by its entry in the order and the time in its id, which is before its commit. */
function dueFilter(
  task: TaskRecord,
  rules: RetentionRules,
  newest: readonly number[],
  nowMs: number,
): (entry: OrderEntry) => boolean {
  const goesYoung = mayGoYoung(task, rules, { newest });
  return ({ id, retention }) => {
    const isWorking = retention === null || retention === DEFAULT_RETENTION;
    const madeMs = idTime(id) - LIMITS.id_ahead_ms_max;
    if (promisedUntil(rules.floor, madeMs) > nowMs) return false;
    if (isWorking && goesYoung) return true;
    return (retention === null ? madeMs + PROMISE_MS_MIN : oldEnoughAt(rules, retention, madeMs)) <= nowMs;
  };
}

export async function retained(
  reader: Reader,
  { tenant, task_id: task }: TaskRecord,
  { metadata, compliance }: Checkpoint,
): Promise<RetainedCheckpoint> {
  return {
    id: metadata.checkpoint_id,
    seq: metadata.seq,
    policy: compliance.retention_policy,
    isBroken: await isBroken(reader, tenant, task, metadata.checkpoint_id),
    committedAt: metadata.committed_at,
    floor: compliance.retention_floor,
    retainUntil: compliance.retain_until,
  };
}

/** Damage that was found has a mark, so the ancestry of a task without marks need not be read. */
async function isBroken(reader: Reader, tenant: string, task: string, id: string): Promise<boolean> {
  const { rows } = await reader.getRange(tenantKeys(tenant).quarantines(task), { limit: 1 });
  return rows.length > 0 && !(await verifyAncestry(reader, tenant, task, id)).ok;
}
