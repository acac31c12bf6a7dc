/**
 * A task's life as one value. Pure: no store, no clock. `work` says where the task stands; ownership (`owner`, `fence`) and `budget`
 * stand beside it, because they outlive a change of `work`.
 *
 *                         take · release · checkpoint
 *                               ┌──────┐
 *                create, take   │      ▼            handoff              confirm · cancel · lapse
 *               ───────────────▶  open  ────────────────────▶ handing_off ──────────────▶ open
 *                               ▲   │  ▲ ▲                        │ reject · escalate
 *            take · settle      │   │  │ └────────────────┐       │
 *          ┌────────────────────┘   │  │ resume           │       ▼
 *          │      fail · retry      ▼  │           checkpoint   blocked ◀──┐ block
 *      recovering ◀────────── every live kind        of the       │       │
 *          │  ▲                                     new owner ────┘       │
 *          │  └──────────────── retry · probe ────────────────────────────┤
 *          └──────────────── budget spent · no recovery point ────────────┘
 *
 *      finalize in phase `complete`, as failed or as cancelled: every kind ──▶ ended; a new checkpoint opens an ended task again.
 *      finalize in phase `complete`, if the policy names another type for it: every kind but ended ──▶ handing_off, once.
 *      cancel of that handoff while the task has no owner: handing_off ──▶ ended.
 *
 * `decide.ts` says which transitions a command or an observation makes; `apply.ts` says what a transition makes of the task.
 */

import type { PlacedHold } from "../protocol/holds.ts";
import type { RecoveryChoice, RecoveryFailure } from "../protocol/recovery-record.ts";
import type {
  BlockReason,
  RecoveryAction,
  RecoveryRung,
  RecoveryState,
} from "../protocol/recovery-states.ts";
import type { TaskShred } from "../protocol/shred.ts";
import type { TaskOrigin, TaskState } from "../protocol/task.ts";

export type Work =
  | { readonly kind: "open" }
  | {
      readonly kind: "handing_off";
      readonly handoff_id: string;
      /** An agent owns the task by this handoff and has not written its first checkpoint. */
      readonly accepted: boolean;
    }
  | {
      readonly kind: "recovering";
      /** `waiting`: an attempt is due at `due_at`. `attempted`: a handoff from the recovery point was made. */
      readonly stage: "waiting" | "attempted";
      readonly due_at: string | null;
      /** The open handoff of the attempt; null: none is open. */
      readonly handoff_id: string | null;
      readonly accepted: boolean;
    }
  | BlockedWork
  | { readonly kind: "ended"; readonly as: "completed" | "failed" | "cancelled" };

export interface BlockedWork {
  readonly kind: "blocked";
  readonly reason: BlockReason;
  readonly details: string | null;
  readonly at: string;
  /** The audit entry whose alert tells operators of this block; null: not known, in a store that an earlier version wrote. */
  readonly alert_seq: number | null;
  /** The agent that has taken the blocked task and not written yet. */
  readonly taken_by: string | null;
  /** Only in a store that an earlier version wrote: the index of recoveries lacks this block. */
  readonly by?: "recovery" | "handoff";
  /** The time of the probe; null: an operator decides. */
  readonly due_at: string | null;
}

/** What recoveries have used since the task last made progress, and the newest failure. */
export interface Budget {
  readonly failures: number;
  readonly attempts: number;
  readonly attempts_max: number | null;
  readonly rung: RecoveryRung;
  /** Attempts on this rung. */
  readonly rung_attempts: number;
  /** The first recovery point that was tried: attempts on the rung `previous` start before it. */
  readonly avoid_id: string | null;
  /** Times of the attempts that count against the policy's window. */
  readonly recent: readonly string[];
  /** The next agent has written, and the task has made no progress since. */
  readonly resumed: boolean;
  readonly is_probe: boolean;
  readonly failure: RecoveryFailure | null;
  readonly action: RecoveryAction | null;
  readonly choice: RecoveryChoice | null;
  /** The recovery point and the handoff of the newest attempt. */
  readonly checkpoint_id: string | null;
  readonly handoff_id: string | null;
  readonly attempted_at: string | null;
  readonly resumed_at: string | null;
}

/** What a task itself says about retention. */
export interface TaskRetention {
  /** The policy of new checkpoints that name none; null: that of the settings. */
  readonly policy: string | null;
  /** The names of its holds, sorted. While there is one, nothing of the task is removed. */
  readonly holds: readonly string[];
  /** How each of them was placed. Absent, also for one of them: an earlier version placed it. */
  readonly placed?: readonly PlacedHold[];
}

/** The record that every command on a task reads and writes. */
export interface TaskRecord {
  readonly task_id: string;
  readonly tenant: string;
  readonly work: Work;
  readonly phase: string | null;
  readonly agent_id: string | null;
  readonly agent_type: string | null;
  readonly latest_id: string | null;
  readonly last_successful_id: string | null;
  readonly seq: number;
  readonly owner: string | null;
  readonly fence: number;
  /** The number of the newest checkpoint that was written while the task had an owner. */
  readonly owned_seq: number;
  /** `owned_seq` when the present owner took the task: earlier owners wrote the checkpoints up to it. */
  readonly taken_seq: number;
  /** The most completed items of any checkpoint of the task: more of them is progress. */
  readonly completed_items: number;
  /**
   * The position of the checkpoint that completed the task and was handed off; null: none since the task last ended. The next
   * completion ends the task, so agent types cannot hand it around in a ring.
   */
  readonly completion_seq: number | null;
  readonly budget: Budget | null;
  /** The last block, while a block for the same reason would not alert again. */
  readonly alerted: { readonly reason: BlockReason; readonly seq: number | null } | null;
  /** What the task itself says about retention; null: nothing. */
  readonly retention: TaskRetention | null;
  /** null, or absent: its shredding is not requested. */
  readonly shred?: TaskShred | null;
  /** null: the task began in this fleet. */
  readonly origin: TaskOrigin | null;
  readonly audit_seq: number;
  readonly audit_hash: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** A budget of which nothing is spent. */
export const WHOLE_BUDGET: Budget = {
  failures: 0,
  attempts: 0,
  attempts_max: null,
  rung: "latest",
  rung_attempts: 0,
  avoid_id: null,
  recent: [],
  resumed: false,
  is_probe: false,
  failure: null,
  action: null,
  choice: null,
  checkpoint_id: null,
  handoff_id: null,
  attempted_at: null,
  resumed_at: null,
};

export function budgetOf({ budget }: Pick<TaskRecord, "budget">): Budget {
  return budget ?? WHOLE_BUDGET;
}

export function isEndedWork({ work }: Pick<TaskRecord, "work">): boolean {
  return work.kind === "ended";
}

/** The id of the open handoff. */
export function openHandoffOf({ work }: Pick<TaskRecord, "work">): string | null {
  return work.kind === "handing_off" || work.kind === "recovering" ? work.handoff_id : null;
}

/** The block of a task that an agent has taken since; null: the task is not blocked, or not taken. */
export function takenBlock({ work }: Pick<TaskRecord, "work">): BlockedWork | null {
  return work.kind === "blocked" && work.taken_by !== null ? work : null;
}

/**
 * True if no agent will continue the task by itself after a failure: it waits for a recovery, for an operator, or for the handoff
 * that replaced the recovery.
 */
export function isLeftToRecovery(
  { owner, work, budget }: Pick<TaskRecord, "owner" | "work" | "budget">,
  open: { readonly supersedes_recovery: boolean } | null = null,
): boolean {
  if (owner !== null || budget === null) return false;
  return work.kind === "recovering" || work.kind === "blocked" || open?.supersedes_recovery === true;
}

/** The state of the task as clients see it. */
export function stateOf({ work, owner }: Pick<TaskRecord, "work" | "owner">): TaskState {
  switch (work.kind) {
    case "open":
      return "active";
    case "handing_off":
      return work.accepted ? "active" : "handing_off";
    case "recovering":
      return work.handoff_id !== null && !work.accepted && owner === null ? "handing_off" : "active";
    case "blocked":
      return "blocked";
    case "ended":
      return work.as;
  }
}

/** The state of the task's recovery as clients see it. */
export function recoveryStateOf({ work, budget }: Pick<TaskRecord, "work" | "budget">): RecoveryState {
  if (work.kind === "recovering") return work.stage;
  if (work.kind === "blocked" && work.taken_by === null) return "blocked";
  return budget?.resumed === true ? "resumed" : "idle";
}

/** True if clients see a recovery: an agent of the task has failed, or the task waits for an operator. */
export function hasRecovery(task: Pick<TaskRecord, "work" | "budget">): boolean {
  return task.budget !== null || recoveryStateOf(task) === "blocked";
}

/** When the watchdogs must look at the task; null: they need not. */
export function recoveryDueOf({ work }: Pick<TaskRecord, "work">): string | null {
  return work.kind === "recovering" || (work.kind === "blocked" && work.taken_by === null)
    ? work.due_at
    : null;
}
