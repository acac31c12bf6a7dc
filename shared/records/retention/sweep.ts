/**
 * The sweep of retention: a pass over all tasks, in small steps. A step plans removals on one snapshot and
 * makes them task by task, each in one transaction that checks the lease and that the task is unchanged since
 * the plan. Then it moves its position. A crash at any point repeats a step, which finds what is left.
 */

import { decisionOfService } from "../../lifecycle/decision.ts";
import { remove } from "../../lifecycle/retention/rules.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Policies } from "../../protocol/policy.ts";
import { type Bytes, type Reader, type Store, StoreError, type Tx } from "../../store/store.ts";
import { readTask } from "../checkpoint/lookup.ts";
import { decodeOrder } from "../checkpoint/order.ts";
import { renewKeysOfEmptied } from "../encryption/renew-keys.ts";
import { decodeChecked, encodeChecked } from "../kv/codec.ts";
import { after, parseTask, systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { LeaseLost } from "../leader/lease.ts";
import { readNewestHead } from "../task/command-transaction.ts";
import { decodeSoundHead } from "../task/head.ts";
import { writeTransitions } from "../task/transitions.ts";
import { isSpentBudget, newBudget, planTask, type TaskPlan } from "./plan.ts";
import { clearCheckpoint } from "./removal.ts";

/** The number of heads read at once. */
const SLICE = 32;
/** The number of plans for a task that changes. */
const ATTEMPTS_MAX = 3;
const READ_DEADLINE_MS = 3_500;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface RetentionSweep {
  readonly store: Store;
  readonly incarnation: number;
  /** The service that acts, for the audit trail. */
  readonly service: string;
  readonly policies: Policies;
  readonly now: () => number;
  /** Runs first in every transaction, and throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
}

interface Place {
  readonly tenant: string;
  /** The last task that is done; null: there is none. */
  readonly done: string | null;
  /** The position in the task after it. */
  readonly from: number;
  /** The end of that task when the pass reached it; absent while the pass stands between two tasks. */
  readonly until?: number;
}

/** The state of the sweep in the store. */
export interface RetentionState {
  /** The pass in progress; null: there is none. */
  readonly current: (Place & PassCounts & { readonly began_at: string }) | null;
  /** The newest complete pass. */
  readonly last: (PassCounts & { readonly began_at: string; readonly ended_at: string }) | null;
}

export interface PassCounts {
  readonly removed: number;
  readonly freed_bytes: number;
  /** Checkpoints that were due and could not be removed, because their task changed or a record of it is damaged. */
  readonly skipped: number;
}

export interface RetentionStep extends PassCounts {
  readonly tasks: number;
  /** The pass so far. */
  readonly pass: PassCounts;
  /** The pass is complete. */
  readonly ended: boolean;
  /** Tasks with a damaged record. */
  readonly failed: readonly { readonly tenant: string; readonly task: string; readonly error: unknown }[];
}

const stateKey = (): Bytes => systemKeys.meta("retention");
const IDLE: RetentionState = { current: null, last: null };

export async function readRetentionState(reader: Reader): Promise<RetentionState> {
  const value = await reader.get(stateKey());
  return value === undefined ? IDLE : decodeChecked<RetentionState>(value);
}

/** Whether a pass is in progress, or none has ended since `sinceMs`. */
export function isRetentionDue({ current, last }: RetentionState, sinceMs: number): boolean {
  return current !== null || last === null || Date.parse(last.ended_at) < sinceMs;
}

const NOTHING: PassCounts = { removed: 0, freed_bytes: 0, skipped: 0 };

interface TaskRemovals {
  readonly tenant: string;
  readonly task: string;
  readonly plan: TaskPlan;
}

interface StepPlan {
  readonly work: readonly TaskRemovals[];
  readonly tasks: number;
  /** null: the pass is complete. */
  readonly next: Place | null;
}

/** Makes one step; begins a pass if none is in progress. */
export async function stepRetention(sweep: RetentionSweep): Promise<RetentionStep> {
  const { store } = sweep;
  const reading = { label: "plan_retention", deadlineMs: READ_DEADLINE_MS };
  const { state, plan } = await store.read(reading, async (reader) => {
    const state = await readRetentionState(reader);
    const place = state.current ?? { tenant: DEFAULT_TENANT, done: null, from: 1 };
    return { state, plan: await planStep(reader, sweep, place) };
  });
  const made = { ...NOTHING, failed: [] as RetentionStep["failed"][number][] };
  for (const work of plan.work) {
    const done = await removePlanned(sweep, work).catch((error: unknown) => {
      // The step is repeated when the store is available. A damaged record must not stop the sweep.
      if (error instanceof StoreError || error instanceof LeaseLost) throw error;
      made.failed.push({ tenant: work.tenant, task: work.task, error });
      return null;
    });
    if (done === null) made.skipped += work.plan.removals.length;
    else Object.assign(made, added(made, { ...NOTHING, ...sizeOf(done) }));
  }
  const counts = added(state.current ?? NOTHING, made);
  const began_at = state.current?.began_at ?? at(sweep);
  await store.transact({ ...WRITE, label: "pass_retention" }, async (tx) => {
    await sweep.guard(tx);
    const next: RetentionState =
      plan.next === null
        ? { current: null, last: { ...counts, began_at, ended_at: at(sweep) } }
        : { ...state, current: { ...counts, began_at, ...plan.next } };
    tx.set(stateKey(), encodeChecked(next));
  });
  return { ...made, tasks: plan.tasks, pass: counts, ended: plan.next === null };
}

const at = ({ now }: RetentionSweep): string => new Date(now()).toISOString();

function sizeOf({ removals }: TaskPlan): Pick<PassCounts, "removed" | "freed_bytes"> {
  return { removed: removals.length, freed_bytes: removals.reduce((sum, { bytes }) => sum + bytes, 0) };
}

function added(a: PassCounts, b: PassCounts): PassCounts {
  return {
    removed: a.removed + b.removed,
    freed_bytes: a.freed_bytes + b.freed_bytes,
    skipped: a.skipped + b.skipped,
  };
}

async function planStep(
  reader: Reader,
  { policies, now }: RetentionSweep,
  { tenant, done, from, until }: Place,
): Promise<StepPlan> {
  const keys = tenantKeys(tenant);
  const budget = newBudget();
  const { begin, end } = keys.tasks();
  const range = { begin: done === null ? begin : after(keys.task(done)), end };
  const { rows, more } = await reader.getRange(range, { limit: SLICE });
  const work: TaskRemovals[] = [];
  let place: Place = { tenant, done, from, ...(until !== undefined && { until }) };
  for (const [i, { key, value }] of rows.entries()) {
    const task = parseTask(key);
    const head = decodeSoundHead(value);
    // A task that grows faster than the sweep works would otherwise hold the pass forever.
    const end = place.until ?? (head?.seq ?? 0) + 1;
    const part = { from: place.from, until: end, budget };
    // The scrub finds the damaged head.
    const plan = head && (await planTask(reader, head, { policies, nowMs: now() }, part));
    if (plan !== null && plan.removals.length > 0) work.push({ tenant, task, plan });
    if (plan !== null && plan.next !== null) {
      return { work, tasks: i, next: { ...place, from: plan.next, until: end } };
    }
    place = { tenant, done: task, from: 1 };
    if (isSpentBudget(budget)) return { work, tasks: i + 1, next: place };
  }
  if (more) return { work, tasks: rows.length, next: place };
  const other = await tenantAfter(reader, tenant);
  return { work, tasks: rows.length, next: other === null ? null : { tenant: other, done: null, from: 1 } };
}

/** A task that has changed is planned again. null: it changes all the time, so the next pass tries again. */
async function removePlanned(sweep: RetentionSweep, work: TaskRemovals): Promise<TaskPlan | null> {
  const { store, policies, now } = sweep;
  const { tenant, task } = work;
  let { plan } = work;
  for (let attempts = 1; !(await attempt(sweep, { tenant, task, plan })); attempts += 1) {
    if (attempts === ATTEMPTS_MAX) return null;
    const reading = { label: "plan_retention", deadlineMs: READ_DEADLINE_MS };
    plan = await store.read(reading, async (reader) => {
      const head = await readTask(reader, tenant, task);
      if (head === null) return { ...plan, removals: [] };
      return planTask(reader, head, { policies, nowMs: now() }, { from: 1, budget: newBudget() });
    });
  }
  return plan;
}

/** False if the task has changed since the plan. */
async function attempt(sweep: RetentionSweep, { tenant, task, plan }: TaskRemovals): Promise<boolean> {
  const { store, service, incarnation, now, guard } = sweep;
  const { value } = await store.transact({ ...WRITE, label: "remove_checkpoints" }, async (tx) => {
    await guard(tx);
    if (plan.removals.length === 0) return true;
    const keys = tenantKeys(tenant);
    const head = await readNewestHead(tx, keys, task);
    if (head === null || head.audit_seq !== plan.auditSeq) return isMade(tx, plan, { tenant, task });
    const nowMs = now();
    const decision = decisionOfService(head, service, nowMs);
    for (const { entry, checkpoint, reason } of plan.removals) {
      const { id, version, hash } = entry;
      const change = { id, version, oldHash: hash, newHash: null };
      const policy = checkpoint.compliance.retention_policy;
      remove(decision, { change, policy, judgement: { remove: reason } });
      await clearCheckpoint(tx, keys, decision, { entry, checkpoint, reason });
    }
    await renewKeysOfEmptied(tx, tenant, task);
    const actor = { id: service, type: "service" } as const;
    const author = { tenant, task, actor, commandId: null, nowMs, incarnation, traceparent: undefined };
    writeTransitions(tx, keys, author, head, decision.transitions);
    return true;
  });
  return value;
}

/** Whether an earlier attempt, whose result was unknown, made the removals. */
async function isMade(
  tx: Tx,
  { removals }: TaskPlan,
  { tenant, task }: { readonly tenant: string; readonly task: string },
): Promise<boolean> {
  const [first] = removals;
  if (first === undefined) return true;
  const { seq } = first.checkpoint.metadata;
  return decodeOrder(await tx.get(tenantKeys(tenant).order(task, seq))) === null;
}
