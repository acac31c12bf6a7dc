/**
 * The rules of retention: which checkpoints of a task go, and why the others stay. Pure: what a recovery,
 * a handoff or a living agent needs is read by `shared/records/retention`. Seed 002, US-308; seed 000, NFR-013.
 */
import { invalid } from "../../protocol/errors.ts";
import { type Policy, retentionFloorOf } from "../../protocol/policy.ts";
import {
  DEFAULT_RETENTION,
  type KeptReason,
  longerRetention,
  promisedDays,
  type RemovalReason,
} from "../../protocol/retention.ts";
import type { Decision } from "../decision.ts";
import { isImporting } from "../import/import.ts";
import type { TaskRecord } from "../task.ts";
import { type CheckpointChange, conflict, type Refusal, refuse } from "../transition.ts";
import { isHeld, NO_RETENTION } from "./hold-rules.ts";

const DAY_MS = 86_400_000;

export type RetentionRules = Policy["retention"] & {
  /** The retention floor of the tenant. */
  readonly floor: string;
};

/** The checkpoints of a task that retention depends on. */
export interface Needs {
  /** The positions of the newest checkpoints that exist, the newest first: as many as the rules count. */
  readonly newest: readonly number[];
  /** Checkpoints that something depends on, by id. */
  readonly needed: ReadonlyMap<string, Extract<KeptReason, "recovery" | "handoff" | "owned" | "signed">>;
  /** The newest sound checkpoint: the final one of a completed task. */
  readonly finalId: string | null;
}

/** A sound checkpoint. */
export interface RetainedCheckpoint {
  readonly id: string;
  readonly seq: number;
  readonly policy: string;
  /** An ancestor is corrupt. */
  readonly isBroken: boolean;
  /** When its newest version was committed. */
  readonly committedAt: string;
  /** The longest floor under which a version of it was committed. */
  readonly floor?: string | undefined;
  /** Until when it is kept at least; absent: it is a draft, or no time is promised, or it is kept forever. */
  readonly retainUntil?: string | undefined;
}

export type Judgement =
  | { readonly remove: RemovalReason }
  /** `untilMs`: the time at which the reason ends, if it is known. `floor`: the retention floor that is the reason. */
  | { readonly keep: KeptReason; readonly untilMs?: number; readonly floor?: string };

/** The number of newest checkpoints that the rules count. */
export function countedByRules({ keep, max }: RetentionRules): number {
  return Math.max(keep, max ?? 0) + 1;
}

/** The earliest time at which a checkpoint that was committed at `committedMs` may be old enough. */
export function oldEnoughAt(rules: RetentionRules, policy: string, committedMs: number): number {
  if (policy === DEFAULT_RETENTION) return rules.days === null ? Infinity : committedMs + rules.days * DAY_MS;
  return promisedUntil(policy, committedMs);
}

/** The time at which the promise of a policy or a floor ends. */
export function promisedUntil(policy: string, committedMs: number): number {
  return committedMs + promisedDays(policy) * DAY_MS;
}

function isCompleted({ work }: TaskRecord): boolean {
  return work.kind === "ended" && work.as === "completed";
}

/** Whether checkpoints of class `working` may go before they are old enough. */
export function mayGoYoung(
  task: TaskRecord,
  rules: RetentionRules,
  { newest }: Pick<Needs, "newest">,
): boolean {
  return (isCompleted(task) && rules.completed_days !== null) || isOverCount(rules, newest);
}

function isOverCount({ max }: RetentionRules, newest: readonly number[]): boolean {
  return max !== null && newest.length > max;
}

/** `named`: an operator asks for this checkpoint, of any age. */
export function judge(
  task: TaskRecord,
  checkpoint: RetainedCheckpoint,
  { newest, needed, finalId }: Needs,
  {
    rules,
    nowMs,
    named = false,
  }: { readonly rules: RetentionRules; readonly nowMs: number; readonly named?: boolean },
): Judgement {
  const { id, seq, policy } = checkpoint;
  // The versions that are still to come refer to earlier ones.
  if (isHeld(task) || isImporting(task)) return { keep: "held" };
  const need = needed.get(id);
  if (need !== undefined) return { keep: need };
  // With the checkpoint its ancestry would end before the damage, and the chain would seem whole.
  if (checkpoint.isBroken) return { keep: "corrupt" };
  const oldEnoughMs = oldEnoughAt(rules, policy, Date.parse(checkpoint.committedAt));
  const isWorking = policy === DEFAULT_RETENTION;
  const promise = promiseOf(checkpoint, rules);
  if (promise.untilMs > nowMs) return promise;
  if (isCompleted(task) && rules.completed_days !== null) {
    if (id !== finalId) return { remove: named ? "request" : "completed" };
    const finalMs = Date.parse(task.updated_at) + rules.completed_days * DAY_MS;
    return finalMs > nowMs ? kept("final", finalMs) : { remove: named ? "request" : "completed" };
  }
  if (newest.slice(0, rules.keep).includes(seq) || seq === newest[0]) return { keep: "newest" };
  if (named) return { remove: "request" };
  if (isWorking && isOverCount(rules, newest) && !newest.slice(0, rules.max ?? 0).includes(seq)) {
    return { remove: "count" };
  }
  return oldEnoughMs <= nowMs ? { remove: "age" } : kept("young", oldEnoughMs);
}

/** What keeps the checkpoint longest: its policy, the floor under which it was committed, or the present floor. */
export function promiseOf(
  { policy, floor: stamped = DEFAULT_RETENTION, committedAt, retainUntil }: RetainedCheckpoint,
  rules: RetentionRules,
): Extract<Judgement, { keep: unknown }> & { readonly untilMs: number } {
  const committedMs = Date.parse(committedAt);
  const floor = longerRetention(rules.floor, stamped);
  const finalMs = Date.parse(retainUntil ?? "") || 0;
  const isByFloor = promisedDays(stamped) > promisedDays(policy);
  const floorMs = Math.max(endOfPromise(floor, committedMs), isByFloor ? finalMs : 0);
  const promisedMs = Math.max(endOfPromise(policy, committedMs), isByFloor ? 0 : finalMs);
  return floorMs > promisedMs
    ? { keep: "floor", floor, untilMs: floorMs }
    : { keep: "promised", untilMs: promisedMs };
}

/** `working` promises no time. */
function endOfPromise(policy: string, committedMs: number): number {
  return policy === DEFAULT_RETENTION ? 0 : promisedUntil(policy, committedMs);
}

function kept(keep: KeptReason, untilMs: number): Judgement {
  return Number.isFinite(untilMs) ? { keep, untilMs } : { keep };
}

/** Adds the removal of a checkpoint, or says why it stays. */
export function remove(decision: Decision, { change, policy, judgement }: RemoveInput): Decision | Refusal {
  const { id } = change;
  const { task: taskId } = decision.circumstances;
  if ("keep" in judgement) {
    const { keep, untilMs = Infinity, floor } = judgement;
    return conflict("kept", "retention keeps this checkpoint", {
      ...{ checkpoint_id: id, task_id: taskId, reason: keep },
      ...(floor !== undefined && { floor }),
      ...(Number.isFinite(untilMs) && { until: new Date(untilMs).toISOString() }),
    });
  }
  const reason = judgement.remove;
  return decision.add("remove", {
    checkpoint: change,
    facts: { reason, retention_policy: policy },
    event: { type: "CHECKPOINT_REMOVED", data: { checkpointId: id, taskId, reason } },
  });
}

export interface RemoveInput {
  /** With the hash of the removed version, and without a new one. */
  readonly change: CheckpointChange;
  readonly policy: string;
  readonly judgement: Judgement;
}

/** A change of what a task itself says about retention. */
export interface RetainInput {
  /** The policy of new checkpoints that name none; null: that of the settings. */
  readonly policy: string | null;
}

export function retain(decision: Decision, task: TaskRecord, { policy }: RetainInput): Decision | Refusal {
  const { holds } = task.retention ?? NO_RETENTION;
  const floor = retentionFloorOf(decision.circumstances.policies, task.tenant);
  if (policy !== null && promisedDays(policy) < promisedDays(floor)) return belowFloor(policy, floor);
  return decision.add("retain", {
    facts: { retention_policy: policy, holds },
    event: {
      type: "TASK_RETENTION_CHANGED",
      data: { taskId: task.task_id, retentionPolicy: policy, holds: [...holds] },
    },
  });
}

/** The floor would hold in any case. An operator that names a shorter policy does not know of it, and waits for the answer. */
function belowFloor(policy: string, floor: string): Refusal {
  const expected = `at least ${floor}, the retention floor of the tenant`;
  return refuse("below_floor", invalid("retention_policy", expected, policy));
}
