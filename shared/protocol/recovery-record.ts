/** The record of a task's recovery, as it is stored in the task's head and answered, and what may be asked of it. */
import { z } from "zod";
import { FAILURE_CLASSES } from "./exit-report.ts";
import { checkpointIdSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { FAILURE_SIGNALS, RECOVERY_ACTIONS, RECOVERY_RUNGS, RECOVERY_STATES } from "./recovery-states.ts";

const time = z.string().nullable();

const failureSchema = z.looseObject({
  class: z.enum(FAILURE_CLASSES),
  signal: z.enum(FAILURE_SIGNALS),
  /** Who failed; null: nobody owned the task. */
  agent_id: z.string().nullable(),
  /** Of which type whoever goes on should be; null: as the checkpoint says. */
  agent_type: z.string().nullable(),
  /** Under which it had the task. */
  fence: z.int(),
  /** For people. */
  details: z.string().nullable(),
  /** Of a rate limit: when the vendor serves again. */
  resets_at: time,
  /** When the failed agent gave its last sign of life, or ended; null: not known. */
  last_sign_at: time,
  noted_at: z.string(),
  /** The trace in which it was noted, which its attempts carry on. */
  traceparent: z.string().optional(),
});
export type RecoveryFailure = z.output<typeof failureSchema>;

const wishSchema = z.looseObject({
  checkpoint_id: z.string().nullable(),
  to_agent_type: z.string().nullable(),
  reason: z.string().nullable(),
  /** The agent or operator that asked; null: the policy. */
  by: z.string().nullable(),
});
/** What was chosen for the next attempt. */
export type RecoveryWish = z.output<typeof wishSchema>;

/** Times are the acting service's. */
export const taskRecoverySchema = z.looseObject({
  state: z.enum(RECOVERY_STATES),
  /** Since the budget was whole. */
  failures: z.int(),
  attempts: z.int(),
  /** Of both rungs, by the policy at the newest failure; null: there was none. */
  attempts_max: z.int().nullable(),
  rung: z.enum(RECOVERY_RUNGS),
  /** Attempts on this rung. */
  rung_attempts: z.int(),
  /** Attempts on the rung `previous` begin before this one; null on `latest`. */
  avoid_id: z.string().nullable(),
  /** When attempts were made, of those that still count against the limit of the policy's window. */
  recent: z.array(z.string()),
  /** The most items that a checkpoint of the task had completed; more of them is progress. */
  completed_items: z.int(),
  failure: failureSchema.nullable(),
  action: z.enum(RECOVERY_ACTIONS).nullable(),
  /** The policy tries once more after a while: should that fail, the task is blocked again. */
  is_probe: z.boolean(),
  /** What a person chose for the next attempt; null: the policy decides. */
  wish: wishSchema.nullable(),
  /** Of the newest attempt. */
  checkpoint_id: z.string().nullable(),
  handoff_id: z.string().nullable(),
  /** When somebody looks at it again; null: nobody has to. */
  due_at: time,
  attempted_at: time,
  resumed_at: time,
});
export type Recovery = z.output<typeof taskRecoverySchema>;

/** A handoff that is an attempt at recovery. */
export const recoveryAttemptSchema = z.looseObject({
  /** Since the budget was whole, from 1. */
  attempt: z.int(),
  /** null: nobody failed, somebody wanted it so. */
  class: z.enum(FAILURE_CLASSES).nullable(),
});

/**
 * Has the task recovered now: whoever owns it is deposed, and the next agent goes on from `checkpoint_id`, or else from the newest
 * checkpoint that verifies. `reset`: with the whole budget. `force`: although its agent lives.
 */
export const recoverWish = {
  checkpoint_id: checkpointIdSchema.optional(),
  to_agent_type: tokenSchema.optional(),
  reason: z
    .string()
    .max(LIMITS.handoff_reason_chars_max, `at most ${LIMITS.handoff_reason_chars_max} characters`)
    .optional(),
  reset: z.boolean().default(false),
  force: z.boolean().default(false),
};
