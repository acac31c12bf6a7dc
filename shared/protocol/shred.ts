/**
 * Shredding: all content of a task is removed for good, by two persons. One requests it, another one approves it; the fleet then removes
 * the content, and leaves the audit trail, the signatures and a tombstone with the hash of each checkpoint.
 */
import { z } from "zod";
import { caseReference } from "./holds.ts";
import { commandIdSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";

const envelope = { command_id: commandIdSchema, fence: z.int().min(0).optional() };
/** The audit entry of the request, so that no other request is approved or cancelled than the caller saw. */
const requestSeq = z.int().min(1);

/** `reason` is a code, such as `erasure`. Both stand in the audit trail, so they must not have content. */
const requestSchema = z.looseObject({ ...envelope, reason: tokenSchema, case: caseReference.optional() });
const approveSchema = z.looseObject({ ...envelope, request_seq: requestSeq });
const cancelSchema = z.looseObject({ ...envelope, request_seq: requestSeq });

export const SHRED_COMMAND_SCHEMAS = {
  shred_request: requestSchema,
  shred_approve: approveSchema,
  shred_cancel: cancelSchema,
} as const;
export type ShredRequestCommand = z.output<typeof requestSchema>;
export type ShredApproveCommand = z.output<typeof approveSchema>;
export type ShredCancelCommand = z.output<typeof cancelSchema>;

/** `approved`: the content is being removed, and the task accepts no other command. */
export const SHRED_STATES = ["requested", "approved", "shredded"] as const;
export type ShredState = (typeof SHRED_STATES)[number];

export const taskShredSchema = z.looseObject({
  state: z.enum(SHRED_STATES),
  reason: z.string(),
  case: z.string().nullable(),
  requested_by: z.string(),
  requested_at: z.string(),
  /** The audit entry of the request. */
  request_seq: z.int(),
  /** Until then it may be approved. */
  expires_at: z.string(),
  approved_by: z.string().nullable(),
  approved_at: z.string().nullable(),
  approve_seq: z.int().nullable(),
  /** The end of the removal. */
  ended_at: z.string().nullable(),
  end_seq: z.int().nullable(),
});
export type TaskShred = z.output<typeof taskShredSchema>;

/** The answer to the three commands. `shred` null: the request was cancelled. */
export const shredAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  shred: taskShredSchema.nullable(),
  committed_at: z.string(),
  position: z.string(),
  replayed: z.boolean(),
});
export type ShredAnswer = z.output<typeof shredAnswerSchema>;

export const shredsQuerySchema = z.looseObject({
  /** Default: `requested`, then `approved`, then `shredded`. */
  state: z.enum(SHRED_STATES, { error: `one of ${SHRED_STATES.join(", ")}` }).optional(),
  limit: pageLimit(LIMITS.holds_limit_max, LIMITS.holds_limit_default),
  cursor: z.string().max(1_024).optional(),
});

export const shredPageSchema = z.looseObject({
  shreds: z.array(taskShredSchema.extend({ task_id: z.string() })),
  /** Absent on the last page. */
  cursor: z.string().exactOptional(),
});
export type ShredPage = z.output<typeof shredPageSchema>;
