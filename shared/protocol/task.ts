/** A task's state: what it is, and the complete table of how it may change. */
import { z } from "zod";
import type { FinalStatus } from "./checkpoint.ts";
import { recoverySchema } from "./recovery-record.ts";
import { BLOCK_REASONS } from "./recovery-states.ts";

export const TASK_STATES = ["active", "handing_off", "blocked", "completed", "failed", "cancelled"] as const;
export type TaskState = (typeof TASK_STATES)[number];

export type TaskEvent =
  | "checkpoint"
  | "handoff"
  | "accept"
  | "withdraw"
  | "take"
  | "block"
  | "unblock"
  | "complete"
  | "fail"
  | "cancel";

/**
 * Complete by compilation: a new state or event without a decision for every pair is a type error. null: refused.
 * A checkpoint written to a finished task opens it again, visibly (audit); recovery alone never restarts one.
 * Taking a task over changes who may write, not how the work stands: a finished one stays finished until its new owner writes to
 * it, a blocked one blocked. What nobody in particular writes to a blocked task that is left to nobody since a failure is kept, and is no event
 * here: it brings nobody who goes on. Only a handover ends, because somebody has the task now. `withdraw`: the handover came to nothing, and
 * whoever had the task has it still.
 */
export const TASK_TABLE: Readonly<Record<TaskState, Readonly<Record<TaskEvent, TaskState | null>>>> = {
  active: {
    checkpoint: "active",
    handoff: "handing_off",
    accept: "active",
    withdraw: "active",
    take: "active",
    block: "blocked",
    unblock: null,
    complete: "completed",
    fail: "failed",
    cancel: "cancelled",
  },
  handing_off: {
    checkpoint: "handing_off",
    handoff: "handing_off",
    accept: "active",
    withdraw: "active",
    take: "active",
    block: "blocked",
    unblock: null,
    complete: "completed",
    fail: "failed",
    cancel: "cancelled",
  },
  blocked: {
    checkpoint: "active",
    handoff: "handing_off",
    accept: "active",
    withdraw: "blocked",
    take: "blocked",
    block: "blocked",
    unblock: "active",
    complete: "completed",
    fail: "failed",
    cancel: "cancelled",
  },
  completed: {
    checkpoint: "active",
    handoff: null,
    accept: null,
    withdraw: null,
    take: "completed",
    block: null,
    unblock: null,
    complete: "completed",
    fail: "failed",
    cancel: null,
  },
  failed: {
    checkpoint: "active",
    handoff: null,
    accept: null,
    withdraw: null,
    take: "failed",
    block: null,
    unblock: null,
    complete: "completed",
    fail: "failed",
    cancel: "cancelled",
  },
  cancelled: {
    checkpoint: "active",
    handoff: null,
    accept: null,
    withdraw: null,
    take: "cancelled",
    block: null,
    unblock: null,
    complete: null,
    fail: null,
    cancel: "cancelled",
  },
};

/** What finalising a checkpoint means for its task; null: nothing. A success ends the task only in phase `complete`. */
export function finalizeEvent(status: FinalStatus, phase: string): TaskEvent | null {
  switch (status) {
    case "succeeded":
      return phase === "complete" ? "complete" : null;
    case "failed":
      return "fail";
    case "cancelled":
      return "cancel";
    case "handed_off":
      return null;
  }
}

/** What a task waits for a person for, or has waited for and nothing new got done since. */
const blockSchema = z.object({
  /** The audit entry of which people were alerted: the occasion of that alert. */
  seq: z.int(),
  /** null: a checkpoint broke after it was chosen; the watchdogs go on from the one before. */
  reason: z.enum(BLOCK_REASONS).nullable(),
  details: z.string().nullable(),
  /** The task's when it was blocked: who has taken it since has a higher one. */
  fence: z.int(),
});
export type Block = z.infer<typeof blockSchema>;

/** The head of a task: one small record that every command on the task reads and writes. */
export const taskSchema = z.object({
  task_id: z.string(),
  tenant: z.string(),
  state: z.enum(TASK_STATES),
  /** What the newest checkpoint says; null, like `latest_id`, while the task was only taken and has none. */
  phase: z.string().nullable(),
  agent_id: z.string().nullable(),
  agent_type: z.string().nullable(),
  /** The newest checkpoint, and the newest one finalized as succeeded. */
  latest_id: z.string().nullable(),
  last_successful_id: z.string().nullable(),
  /** Checkpoints so far. */
  seq: z.int(),
  /** The agent that has taken the task and not released it; how often the task was taken. */
  owner: z.string().nullable(),
  fence: z.int(),
  /** The handoff that is open; null: none is. */
  handoff_id: z.string().nullable(),
  /** null: no agent of it ever failed. */
  recovery: recoverySchema.nullable(),
  /** In state `blocked` the one that it is in; else the one before, as long as the same one may come again. */
  block: blockSchema.nullable(),
  /** The newest audit entry and its hash. */
  audit_seq: z.int(),
  audit_hash: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
});

export type Task = z.infer<typeof taskSchema>;
