/**
 * A handoff: one task on its way from one agent to the next. It has the id of the command that opened it; a task has at most one that
 * is open. Its states, and how it goes from one to the next: handoff.ts.
 */
import { z } from "zod";
import { type Checkpoint, firedTriggerSchema, PHASES } from "./checkpoint.ts";
import { HANDOFF_FAILURES, HANDOFF_STATES } from "./handoff-states.ts";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { recoveryAttemptSchema } from "./recovery-record.ts";

/** The phases that a task can go on in; `handoff` is the way there. */
const NEXT_PHASES = PHASES.filter((phase) => phase !== "handoff");

export const nextPhaseSchema = z.enum(NEXT_PHASES, { error: `one of ${NEXT_PHASES.join(", ")}` });

/** In which phase a task goes on from a checkpoint that was written to hand it off; null: that says none, or was written for something else. */
export function nextPhaseOf({
  phase,
  resume_pointer: pointer,
}: Checkpoint["execution_state"]): z.output<typeof nextPhaseSchema> | null {
  return nextPhaseSchema.safeParse(phase === "handoff" ? pointer?.phase : undefined).data ?? null;
}

export const handoffReasonSchema = z
  .string()
  .max(LIMITS.handoff_reason_chars_max, `at most ${LIMITS.handoff_reason_chars_max} characters`);

/** What whoever asks for a handoff may say about it; absent, the policy decides who is next. */
export const handoffWish = {
  to_agent_type: tokenSchema.optional(),
  next_phase: nextPhaseSchema.optional(),
  reason: handoffReasonSchema.optional(),
};

export const handoffWishSchema = z.looseObject(handoffWish);
export type HandoffWish = z.output<typeof handoffWishSchema>;

const failureSchema = z.looseObject({
  reason: z.enum(HANDOFF_FAILURES),
  /** For people: what was broken, or what somebody said. */
  details: z.string().nullable(),
});
export type HandoffEnding = z.output<typeof failureSchema>;

const time = z.string().nullable();

/** The record of a handoff, as it is stored and answered. Times are the acting service's. */
export const handoffSchema = z.looseObject({
  handoff_id: z.string(),
  tenant: z.string(),
  task_id: z.string(),
  state: z.enum(HANDOFF_STATES),
  from_agent: z.string(),
  from_agent_type: z.string(),
  checkpoint_id: z.string(),
  /** Of the version that was current when the handoff was asked for. */
  checkpoint_hash: z.string(),
  /** null until somebody has chosen: the request, or the validation. */
  to_agent_type: z.string().nullable(),
  reason: z.string().nullable(),
  /** The threshold that was crossed; null: it was asked for. */
  trigger: firedTriggerSchema.nullable(),
  next_phase: nextPhaseSchema.nullable(),
  /** null: no agent failed. */
  recovery: recoveryAttemptSchema.nullable(),
  /** Nobody had the task since a failure, and this took the place of what would have brought it on. */
  supersedes_recovery: z.boolean(),
  /** How often it was offered. */
  attempt: z.int(),
  max_attempts: z.int().nullable(),
  /** The fence that the taker will get; null until it is offered. */
  fence_to_be: z.int().nullable(),
  accepted_by: z.string().nullable(),
  /** The fence that the taker got. */
  fence: z.int().nullable(),
  /** How long the taker has for its first checkpoint; null until it is offered. */
  first_checkpoint_ms: z.int().nullable(),
  first_checkpoint_id: z.string().nullable(),
  failure: failureSchema.nullable(),
  /** Until when an offer can be taken, or the first checkpoint be written; null in other states. */
  deadline: time,
  /** When the coordinators look at it again, whatever they heard until then; null at its end. */
  due_at: time,
  requested_at: z.string(),
  validated_at: time,
  /** The latest offer. */
  offered_at: time,
  accepted_at: time,
  ended_at: time,
  traceparent: z.string().exactOptional(),
});

export type Handoff = z.output<typeof handoffSchema>;
