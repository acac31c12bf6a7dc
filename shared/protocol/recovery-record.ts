/**
 * The record of a task's recovery, as it is stored in the task's head and returned, and the fields of a
 * request for one.
 */
import { z } from "zod";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { checkpointIdSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { FAILURE_SIGNALS, RECOVERY_ACTIONS, RECOVERY_RUNGS, RECOVERY_STATES } from "./recovery-states.ts";

const time = z.string().nullable();

const failureSchema = z.looseObject({
  class: z.enum(FAILURE_CLASSES),
  signal: z.enum(FAILURE_SIGNALS),
  /** The failed agent; null: the task had no owner. */
  agent_id: z.string().nullable(),
  /** The type that the next agent should have; null: the type in the checkpoint. */
  agent_type: z.string().nullable(),
  /** The fence under which the failed agent owned the task. */
  fence: z.int(),
  /** For operators. */
  details: z.string().nullable(),
  /** The end of a rate limit; null: none, or not known. */
  resets_at: time,
  /** The last sign of life of the failed agent, or its end; null: not known. */
  last_sign_at: time,
  noted_at: z.string(),
  /** The trace in which it was noted; its attempts continue this trace. */
  traceparent: z.string().optional(),
});
export type RecoveryFailure = z.output<typeof failureSchema>;

const choiceSchema = z.looseObject({
  checkpoint_id: z.string().nullable(),
  to_agent_type: z.string().nullable(),
  reason: z.string().nullable(),
  /** The agent or operator that asked; null: the policy. */
  by: z.string().nullable(),
});
/** The choices for the next attempt. */
export type RecoveryChoice = z.output<typeof choiceSchema>;

/** Times are by the clock of the service that wrote them. */
export const taskRecoverySchema = z.looseObject({
  state: z.enum(RECOVERY_STATES),
  /** The failures since the budget was whole. */
  failures: z.int(),
  attempts: z.int(),
  /** The attempts on both rungs, by the policy at the newest failure; null: there was no failure. */
  attempts_max: z.int().nullable(),
  rung: z.enum(RECOVERY_RUNGS),
  /** Attempts on this rung. */
  rung_attempts: z.int(),
  /** Attempts on the rung `previous` start from a checkpoint before this one; null on `latest`. */
  avoid_id: z.string().nullable(),
  /** The times of the attempts that still count against the limit of the policy's window. */
  recent: z.array(z.string()),
  /** The highest number of completed items in any checkpoint of the task; a higher number is progress. */
  completed_items: z.int(),
  failure: failureSchema.nullable(),
  action: z.enum(RECOVERY_ACTIONS).nullable(),
  /** The attempt is a probe: if it fails, the task is blocked again. */
  is_probe: z.boolean(),
  /** An operator's choices for the next attempt; null: the policy decides. */
  choice: choiceSchema.nullable(),
  /**
   * The agent type that an attempt from the newest checkpoint goes to; null: decided when the recovery point is
   * read. The handoff of an open attempt has its type.
   */
  to_agent_type: z.string().nullable(),
  /** The recovery point of the newest attempt. */
  checkpoint_id: z.string().nullable(),
  handoff_id: z.string().nullable(),
  /** The time at which the watchdogs act on it next; null: they have nothing to do. */
  due_at: time,
  attempted_at: time,
  resumed_at: time,
});
export type Recovery = z.output<typeof taskRecoverySchema>;

/** A handoff that is an attempt at recovery. */
export const recoveryAttemptSchema = z.looseObject({
  /** The number of the attempt since the budget was whole, from 1. */
  attempt: z.int(),
  /** The class of the failure; null: no agent failed, an operator requested the recovery. */
  class: z.enum(FAILURE_CLASSES).nullable(),
});

/**
 * Requests a recovery at once: the ownership of the task is revoked, and the next agent continues from
 * `checkpoint_id`, or else from the newest sound checkpoint. `reset` restores the whole budget. `force`
 * revokes the ownership of a living agent too.
 */
export const recoverFields = {
  checkpoint_id: checkpointIdSchema.optional(),
  to_agent_type: tokenSchema.optional(),
  reason: z
    .string()
    .max(LIMITS.handoff_reason_chars_max, `at most ${LIMITS.handoff_reason_chars_max} characters`)
    .optional(),
  reset: z.boolean().default(false),
  force: z.boolean().default(false),
};
