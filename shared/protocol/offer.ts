/**
 * An offer: everything that an agent needs to accept a task, as a CloudEvent in JSON on a work queue per
 * agent type. An orchestrator in any language receives it, sends `acknowledge` as the agent that is meant to
 * own the task, and acknowledges the message after the answer. Delivered at least once; the transaction
 * behind `acknowledge` alone decides about ownership, and refuses an offer that the fleet did not make.
 */
import { z } from "zod";
import { firedTriggerSchema } from "./checkpoint.ts";
import { handoffReasonSchema, nextPhaseSchema } from "./handoff-record.ts";
import { digestSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { recoveryAttemptSchema } from "./recovery-record.ts";

export const OFFER_TYPE = "HANDOFF_OFFER";

const utf8 = new TextEncoder();

export const promptSchema = z
  .string()
  .refine(
    (text) => utf8.encode(text).length <= LIMITS.prompt_bytes_max,
    `at most ${LIMITS.prompt_bytes_max} bytes`,
  );

export const offerDataSchema = z.looseObject({
  handoff_id: z.string(),
  tenant: z.string(),
  task_id: z.string(),
  agent_type: tokenSchema,
  /** The version that the prompt was made from. */
  checkpoint: z.looseObject({ id: z.string(), version: z.int(), hash: z.string() }),
  from_agent: z.string(),
  reason: handoffReasonSchema.nullable(),
  trigger: firedTriggerSchema.nullable(),
  next_phase: nextPhaseSchema.nullable(),
  /** null: the handoff is no recovery. */
  recovery: recoveryAttemptSchema.nullable().default(null),
  prompt: promptSchema,
  prompt_style: z.string(),
  prompt_tokens: z.int().min(0),
  /** Random, so that `digest` says nothing about the prompt. Absent: an earlier version of Fleet made the offer. */
  salt: z.string().exactOptional(),
  /** The fence that `acknowledge` will answer with. */
  fence_to_be: z.int(),
  /** 1 for the first offer of this handoff. */
  attempt: z.int().min(1),
  max_attempts: z.int().min(1),
  /** The time until which `acknowledge` is accepted. */
  deadline: z.string(),
  /** The time from the acknowledgement within which the first checkpoint is due. */
  first_checkpoint_ms: z.int().min(1),
  /** The SHA-256 of the canonical form (RFC 8785) of all other members. The handoff's `offer_digest` is the same. */
  digest: digestSchema,
});

export const offerSchema = z.looseObject({
  specversion: z.literal("1.0"),
  /** `<handoff_id>/<attempt>`: the same for every copy. */
  id: z.string(),
  source: z.literal("fleet"),
  type: z.literal(OFFER_TYPE),
  /** The task. */
  subject: z.string(),
  time: z.string(),
  datacontenttype: z.literal("application/json"),
  tenant: z.string(),
  traceparent: z.string().exactOptional(),
  data: offerDataSchema,
});

export type OfferData = z.output<typeof offerDataSchema>;
export type Offer = z.output<typeof offerSchema>;
