/**
 * A handoff: one task on its way from one agent to the next. Its id is the id of the command that opened it.
 * A task has at most one open handoff. Its states and their transitions are in handoff-states.ts.
 */
import { z } from "zod";
import { type Checkpoint, firedTriggerSchema, PHASES } from "./checkpoint.ts";
import { HANDOFF_FAILURES, HANDOFF_STATES } from "./handoff-states.ts";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { recoveryAttemptSchema } from "./recovery-record.ts";

/** The phases in which a task can continue after a handoff. */
const NEXT_PHASES = PHASES.filter((phase) => phase !== "handoff");

export const nextPhaseSchema = z.enum(NEXT_PHASES, { error: `one of ${NEXT_PHASES.join(", ")}` });

/**
 * The phase in which a task continues from a checkpoint of the phase `handoff`; null: it names none, or its
 * phase is another one.
 */
export function nextPhaseOf({
  phase,
  resume_pointer: pointer,
}: Checkpoint["execution_state"]): z.output<typeof nextPhaseSchema> | null {
  return nextPhaseSchema.safeParse(phase === "handoff" ? pointer?.phase : undefined).data ?? null;
}

export const handoffReasonSchema = z
  .string()
  .max(LIMITS.handoff_reason_chars_max, `at most ${LIMITS.handoff_reason_chars_max} characters`);

/**
 * The caller's choices for a handoff; without `to_agent_type`, the policy decides which agents it is offered
 * to.
 */
export const handoffFields = {
  to_agent_type: tokenSchema.optional(),
  next_phase: nextPhaseSchema.optional(),
  reason: handoffReasonSchema.optional(),
};

export const handoffOptionsSchema = z.looseObject(handoffFields);
export type HandoffOptions = z.output<typeof handoffOptionsSchema>;

const failureSchema = z.looseObject({
  reason: z.enum(HANDOFF_FAILURES),
  /** For operators: the broken record, or the reason that was given. */
  details: z.string().nullable(),
});
export type HandoffEnding = z.output<typeof failureSchema>;

const time = z.string().nullable();

/**
 * The record of a handoff, as it is stored and returned. Times are by the clock of the service that wrote
 * them.
 */
export const handoffSchema = z.looseObject({
  handoff_id: z.string(),
  tenant: z.string(),
  task_id: z.string(),
  state: z.enum(HANDOFF_STATES),
  from_agent: z.string(),
  from_agent_type: z.string(),
  checkpoint_id: z.string(),
  /** The hash of the version that was current when the handoff was requested. */
  checkpoint_hash: z.string(),
  /** null until the request or the validation has chosen it. */
  to_agent_type: z.string().nullable(),
  reason: z.string().nullable(),
  /** The threshold that was crossed; null: the handoff was requested. */
  trigger: firedTriggerSchema.nullable(),
  next_phase: nextPhaseSchema.nullable(),
  /** The attempt at recovery that this handoff is; null: no agent failed. */
  recovery: recoveryAttemptSchema.nullable(),
  /** The task had no owner after a failure, and this handoff replaced the open recovery. */
  supersedes_recovery: z.boolean(),
  /** The number of offers so far. */
  attempt: z.int(),
  max_attempts: z.int().nullable(),
  /** The fence that the next agent will get; null until it is offered. */
  fence_to_be: z.int().nullable(),
  /** The digest of the latest offer, the only one that can be accepted; null until it is offered. */
  offer_digest: z.string().nullable(),
  accepted_by: z.string().nullable(),
  /** The fence of the agent that accepted. */
  fence: z.int().nullable(),
  /** The time that the next agent has for its first checkpoint; null until it is offered. */
  first_checkpoint_ms: z.int().nullable(),
  first_checkpoint_id: z.string().nullable(),
  failure: failureSchema.nullable(),
  /** The end of the offer, or of the time for the first checkpoint; null in other states. */
  deadline: time,
  /** The time at which the coordinators check it again, even without an event; null once it has ended. */
  due_at: time,
  requested_at: z.string(),
  validated_at: time,
  /** The time of the latest offer. */
  offered_at: time,
  accepted_at: time,
  ended_at: time,
  traceparent: z.string().exactOptional(),
});

export type Handoff = z.output<typeof handoffSchema>;
