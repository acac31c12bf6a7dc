/**
 * A handoff: one task on its way from one agent to the next. What it is, and the complete table of how it may change. It has the id
 * of the command that opened it; a task has at most one that is open.
 */
import { z } from "zod";
import { firedTriggerSchema, PHASES } from "./checkpoint.ts";
import { tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";

export const HANDOFF_STATES = [
  "requested",
  "validated",
  "offered",
  "accepted",
  "confirmed",
  "rejected",
  "escalated",
  "cancelled",
  "lapsed",
] as const;
export type HandoffState = (typeof HANDOFF_STATES)[number];

export const HANDOFF_EVENTS = [
  "validate",
  "reject",
  "offer",
  "acknowledge",
  "confirm",
  "escalate",
  "lapse",
  "cancel",
  "supersede",
] as const;
export type HandoffEvent = (typeof HANDOFF_EVENTS)[number];

type Row = Readonly<Record<HandoffEvent, HandoffState | null>>;

const ENDED: Row = {
  validate: null,
  reject: null,
  offer: null,
  acknowledge: null,
  confirm: null,
  escalate: null,
  lapse: null,
  cancel: null,
  supersede: null,
};

/**
 * Complete by compilation: a new state or event without a decision for every pair is a type error. null: refused.
 * `cancel` is somebody's wish and comes too late once an agent has accepted; `supersede` is a fact: the task was taken, ended, or
 * handed off anew, and an open handoff of it can come to nothing any more. An end is for ever.
 */
export const HANDOFF_TABLE: Readonly<Record<HandoffState, Row>> = {
  requested: {
    ...ENDED,
    validate: "validated",
    reject: "rejected",
    cancel: "cancelled",
    supersede: "cancelled",
  },
  validated: {
    ...ENDED,
    offer: "offered",
    escalate: "escalated",
    cancel: "cancelled",
    supersede: "cancelled",
  },
  offered: {
    ...ENDED,
    offer: "offered",
    acknowledge: "accepted",
    escalate: "escalated",
    cancel: "cancelled",
    supersede: "cancelled",
  },
  accepted: { ...ENDED, confirm: "confirmed", lapse: "lapsed", supersede: "cancelled" },
  confirmed: ENDED,
  rejected: ENDED,
  escalated: ENDED,
  cancelled: ENDED,
  lapsed: ENDED,
};

export function isOpenHandoff(state: HandoffState): boolean {
  return HANDOFF_TABLE[state].supersede !== null;
}

export const HANDOFF_FAILURES = [
  "hash_broken",
  "chain_broken",
  "agent_type_unknown",
  "no_agent",
  "no_first_checkpoint",
  "superseded",
  "taken",
  "task_ended",
  "withdrawn",
  "prompt_over_budget",
] as const;
export type HandoffFailure = (typeof HANDOFF_FAILURES)[number];

/** The phases that a task can go on in; `handoff` is the way there. */
const NEXT_PHASES = PHASES.filter((phase) => phase !== "handoff");

export const nextPhaseSchema = z.enum(NEXT_PHASES, { error: `one of ${NEXT_PHASES.join(", ")}` });

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
