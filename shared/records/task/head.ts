/**
 * The head of a task on disk. Heads of the first layout held the state of the task, of its handoff and of its
 * recovery side by side; they are read as the one value that they describe, and written in the new form with
 * the task's next transition or by a scrub.
 */
import { type Budget, type TaskRecord, WHOLE_BUDGET, type Work } from "../../lifecycle/task.ts";
import type { RecoveryChoice, RecoveryFailure } from "../../protocol/recovery-record.ts";
import type {
  BlockReason,
  RecoveryAction,
  RecoveryRung,
  RecoveryState,
} from "../../protocol/recovery-states.ts";
import { isEnded, type TaskState } from "../../protocol/task.ts";
import type { Bytes } from "../../store/store.ts";
import { decodeChecked, encodeChecked, UnreadableValue } from "../kv/codec.ts";

export function encodeHead(task: TaskRecord): Bytes {
  return encodeChecked(task);
}

/** The members that heads of earlier versions lack. */
const LATER_MEMBERS = { completion_seq: null, retention: null, origin: null };

/** Throws UnreadableValue. */
export function decodeHead(value: Bytes): TaskRecord {
  const head = decodeChecked<TaskRecord | FirstHead>(value);
  if (typeof head !== "object" || head === null) throw new UnreadableValue("not a head");
  if ("work" in head) return "origin" in head ? head : { ...LATER_MEMBERS, ...(head as TaskRecord) };
  if (typeof head.state !== "string") throw new UnreadableValue("neither form of a head");
  return fromFirstHead(head);
}

/** True if an earlier version wrote the head, and a scrub must write it in the present form. */
export function isEarlierHead(value: Bytes): boolean {
  if (isFirstHead(value)) return true;
  const { work } = decodeHead(value);
  return work.kind === "blocked" && work.by !== undefined;
}

/** True if the head has the form of the first layout. */
export function isFirstHead(value: Bytes): boolean {
  return !("work" in decodeChecked<object>(value));
}

/** For scans: null for a corrupt head, so that one bad record does not fail the scan. */
export function decodeSoundHead(value: Bytes): TaskRecord | null {
  try {
    return decodeHead(value);
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}

/** A head of the first layout; its earliest ones lack the last three members. */
export interface FirstHead
  extends Omit<
    TaskRecord,
    "work" | "owned_seq" | "taken_seq" | "completed_items" | "budget" | "alerted" | keyof typeof LATER_MEMBERS
  > {
  readonly state: TaskState;
  readonly handoff_id?: string | null;
  readonly recovery?: FirstRecovery | null;
  readonly block?: {
    readonly seq: number;
    readonly reason: BlockReason | null;
    readonly details: string | null;
    readonly fence: number;
  } | null;
}

interface FirstRecovery {
  readonly state: RecoveryState;
  readonly failures: number;
  readonly attempts: number;
  readonly attempts_max: number | null;
  readonly rung: RecoveryRung;
  readonly rung_attempts: number;
  readonly avoid_id: string | null;
  readonly recent: readonly string[];
  readonly completed_items: number;
  readonly failure: RecoveryFailure | null;
  readonly action: RecoveryAction | null;
  readonly is_probe: boolean;
  readonly wish: RecoveryChoice | null;
  readonly checkpoint_id: string | null;
  readonly handoff_id: string | null;
  readonly due_at: string | null;
  readonly attempted_at: string | null;
  readonly resumed_at: string | null;
  readonly blocked: {
    readonly reason: BlockReason;
    readonly details: string | null;
    readonly at: string;
  } | null;
}

export function fromFirstHead(head: FirstHead): TaskRecord {
  const { state: _state, handoff_id: _handoff, recovery = null, block = null, ...record } = head;
  const work = workOf(head);
  const isRemembered = work.kind !== "blocked" && work.kind !== "ended" && block !== null;
  return {
    ...record,
    work,
    // Unknown in the first layout: the owner may change every draft, as it could before.
    owned_seq: 0,
    taken_seq: 0,
    ...LATER_MEMBERS,
    completed_items: recovery?.completed_items ?? 0,
    budget: recovery && budgetOfFirst(recovery),
    alerted: isRemembered && block.reason !== null ? { reason: block.reason, seq: block.seq } : null,
  };
}

function workOf({
  state,
  handoff_id: handoffId = null,
  recovery = null,
  block = null,
  ...head
}: FirstHead): Work {
  if (isEnded(state)) return { kind: "ended", as: state as "completed" | "failed" | "cancelled" };
  const stage = recovery?.state;
  const isOpenAttempt = stage === "attempted" && (state !== "blocked" || (block?.reason ?? null) === null);
  // A blocked task whose attempt was rejected for a corrupt checkpoint is still recovering: the watchdogs
  // continue.
  if (recovery !== null && (isOpenAttempt || (stage === "waiting" && state !== "blocked"))) {
    const accepted = handoffId !== null && state !== "handing_off";
    const dueAt = recovery.due_at;
    return {
      kind: "recovering",
      stage: stage as "waiting" | "attempted",
      due_at: dueAt,
      handoff_id: handoffId,
      accepted,
    };
  }
  if (state === "blocked") {
    const by = stage === "blocked" ? "recovery" : "handoff";
    const isTaken = head.owner !== null && block !== null && head.fence > block.fence;
    return {
      kind: "blocked",
      reason: block?.reason ?? recovery?.blocked?.reason ?? "checkpoint_corrupt",
      details: block?.details ?? recovery?.blocked?.details ?? null,
      at: recovery?.blocked?.at ?? head.updated_at,
      alert_seq: block?.seq ?? null,
      taken_by: isTaken ? head.owner : null,
      by,
      due_at: by === "recovery" ? (recovery?.due_at ?? null) : null,
    };
  }
  if (handoffId === null) return { kind: "open" };
  return { kind: "handing_off", handoff_id: handoffId, accepted: state !== "handing_off" };
}

function budgetOfFirst(recovery: FirstRecovery): Budget {
  const names = Object.keys(WHOLE_BUDGET) as (keyof Budget)[];
  const entries = names.map((name) => [name, (recovery as Partial<Budget>)[name] ?? WHOLE_BUDGET[name]]);
  const budget = Object.fromEntries(entries) as Budget;
  return { ...budget, resumed: recovery.state === "resumed", choice: recovery.wish };
}
