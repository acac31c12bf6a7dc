/** What a request is answered with: the promise that was given, or the error that says nothing happened. */
import { z } from "zod";
import { firedTriggerSchema } from "./checkpoint.ts";
import { ERROR_CODES } from "./errors.ts";
import { HANDOFF_STATES } from "./handoff-states.ts";
import { RECOVERY_STATES } from "./recovery-states.ts";

export const errorBodySchema = z.looseObject({
  code: z.enum(ERROR_CODES),
  message: z.string(),
  retryable: z.boolean(),
  fields: z
    .array(z.looseObject({ path: z.string(), expected: z.string(), got: z.string().exactOptional() }))
    .exactOptional(),
  details: z.looseObject({}).exactOptional(),
  retry_after_ms: z.number().exactOptional(),
});

export const errorAnswerSchema = z.looseObject({ status: z.literal("error"), error: errorBodySchema });

/** In the store, with its audit entry and event, durable. */
export const committedAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  checkpoint_id: z.string(),
  version: z.int(),
  seq: z.int(),
  hash: z.string(),
  committed_at: z.string(),
  /** Commit position, in hex; pass it to `search` as `wait_for` to see at least this write. */
  position: z.string(),
  /** True when the same command had been applied before and this is its first answer again. */
  replayed: z.boolean(),
  warnings: z.array(z.string()).optional(),
  /** The agent should hand off, and why: what the checkpoint says passes a threshold of the policy. */
  handoff_advised: z.array(firedTriggerSchema).exactOptional(),
  /** Of a `create` in phase `handoff`: the handoff that it opened. */
  handoff_id: z.string().exactOptional(),
});

/**
 * Taken for good and not yet applied: it will be applied once, behind what was queued for its task before, or end in the dead
 * letters with the reason.
 */
export const queuedAnswerSchema = z.looseObject({
  status: z.literal("queued"),
  command_id: z.string(),
  task_id: z.string(),
  /** Of a `create`: what its checkpoint will be called. */
  checkpoint_id: z.string().exactOptional(),
  /** Of a `handoff`: what it will be called. */
  handoff_id: z.string().exactOptional(),
  /** Place in the queue's stream. */
  position: z.int(),
});

/** The answer to `take` and `release`: who owns the task now, and under which fence. */
export const ownershipAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  /** null: nobody, after a release. */
  owner: z.string().nullable(),
  fence: z.int(),
  committed_at: z.string(),
  position: z.string(),
  replayed: z.boolean(),
});

/** The answer to `acknowledge`: the caller owns the task, and has until the deadline for its first checkpoint. */
export const acknowledgedAnswerSchema = ownershipAnswerSchema.extend({
  handoff_id: z.string(),
  /** Where to continue. */
  checkpoint_id: z.string(),
  deadline: z.string(),
});

/** The answer to `handoff` and `cancel_handoff`. */
export const handoffAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  handoff_id: z.string(),
  checkpoint_id: z.string(),
  state: z.enum(HANDOFF_STATES),
  committed_at: z.string(),
  position: z.string(),
  replayed: z.boolean(),
});

/** The answer to `recover`: the task waits for its next agent, and whoever had it is shut out. */
export const recoveryAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  recovery: z.enum(RECOVERY_STATES),
  /** The one that was asked for; null: the newest that verifies. */
  checkpoint_id: z.string().nullable(),
  fence: z.int(),
  committed_at: z.string(),
  position: z.string(),
  replayed: z.boolean(),
});

export const okAnswerSchema = z.looseObject({ status: z.literal("ok"), result: z.unknown() });

export type CommittedAnswer = z.output<typeof committedAnswerSchema>;
export type QueuedAnswer = z.output<typeof queuedAnswerSchema>;
export type OwnershipAnswer = z.output<typeof ownershipAnswerSchema>;
export type AcknowledgedAnswer = z.output<typeof acknowledgedAnswerSchema>;
export type HandoffAnswer = z.output<typeof handoffAnswerSchema>;
export type RecoveryAnswer = z.output<typeof recoveryAnswerSchema>;
export type ErrorAnswer = z.output<typeof errorAnswerSchema>;
/** The answer to a command that was carried out. */
export type CommandAnswer =
  | CommittedAnswer
  | OwnershipAnswer
  | AcknowledgedAnswer
  | HandoffAnswer
  | RecoveryAnswer;
