/** Answers to requests: the promise that was given, or an error, after which nothing has happened. */

import { z } from "zod";
import { checkpointSchema, firedTriggerSchema, forkedFromSchema } from "./checkpoint.ts";
import { ERROR_CODES } from "./errors.ts";
import type { SignatureAnswer } from "./esign.ts";
import { HANDOFF_STATES } from "./handoff-states.ts";
import type { MissionAnswer, MissionCheckpointAnswer, ResumptionAnswer } from "./mission-commands.ts";
import type { LockAnswer } from "./mission-locks.ts";
import type { MailboxAnswer, MessageAnswer } from "./mission-messages.ts";
import type { CommandOp } from "./operations.ts";
import { RECOVERY_STATES } from "./recovery-states.ts";
import { redactedSchema } from "./redaction-report.ts";
import type { ShredAnswer } from "./shred.ts";

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

/** Added by the SDK, or by the gateway: the secrets that it removed from the command before it sent it. */
const redacted = redactedSchema.exactOptional();

/** The command is in the store, durable, with its audit entry and event. */
export const committedAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  checkpoint_id: z.string(),
  version: z.int(),
  seq: z.int(),
  hash: z.string(),
  committed_at: z.string(),
  /** Commit position in hex. Passed to `search` as `wait_for`, it makes the search see this write. */
  position: z.string(),
  /** True if the command had been applied before and this repeats its first answer. */
  replayed: z.boolean(),
  warnings: z.array(z.string()).optional(),
  /** The agent should hand off: the handoff triggers of the policy that this checkpoint fired. */
  handoff_advised: z.array(firedTriggerSchema).exactOptional(),
  /** With `include_checkpoint`: the version that this command wrote. Absent if it cannot be read now. */
  checkpoint: checkpointSchema.exactOptional(),
  /** The handoff that the command opened: a `create` in phase `handoff`, or the completion of the task. */
  handoff_id: z.string().exactOptional(),
  /** For a `fork`: the checkpoint whose state the new task has. */
  forked_from: forkedFromSchema.exactOptional(),
  redacted,
});

/**
 * The command is accepted for good and not applied yet. It will be applied once, after the commands that were
 * queued for its task before, or become a dead letter with the reason.
 */
export const queuedAnswerSchema = z.looseObject({
  status: z.literal("queued"),
  command_id: z.string(),
  task_id: z.string(),
  /** For a `create` or a `mission_checkpoint`: the id that its checkpoint will have. */
  checkpoint_id: z.string().exactOptional(),
  /** For a `handoff`: the id that it will have. */
  handoff_id: z.string().exactOptional(),
  /** The position in the queue's stream. */
  position: z.int(),
  redacted,
});

/** The answer to `take`, `release`, `import_begin`, `import_records` and `import_end`: the owner of the task, and its fence. */
export const ownershipAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  /** null after a release. */
  owner: z.string().nullable(),
  fence: z.int(),
  committed_at: z.string(),
  position: z.string(),
  replayed: z.boolean(),
});

/** The answer to `acknowledge`: the caller owns the task. Its first checkpoint is due by the deadline. */
export const acknowledgedAnswerSchema = ownershipAnswerSchema.extend({
  handoff_id: z.string(),
  /** The checkpoint to continue from. */
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
  redacted,
});

/** The answer to `recover`: the task waits for its next agent, and the former owner is fenced off. */
export const recoveryAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  recovery: z.enum(RECOVERY_STATES),
  /** The requested checkpoint. null: the newest sound one. */
  checkpoint_id: z.string().nullable(),
  fence: z.int(),
  committed_at: z.string(),
  position: z.string(),
  replayed: z.boolean(),
});

/** The answer to `remove`: `version` and `hash` are those of the removed version. */
export const removedAnswerSchema = committedAnswerSchema
  .pick({
    status: true,
    command_id: true,
    task_id: true,
    checkpoint_id: true,
    version: true,
    seq: true,
    hash: true,
    committed_at: true,
    position: true,
    replayed: true,
  })
  .extend({ freed_bytes: z.int() });

/** The answer to `retain` and `hold`: what now holds for the task. */
export const retentionAnswerSchema = z.looseObject({
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  /** The policy of new checkpoints that name none. null: that of the settings. */
  retention_policy: z.string().nullable(),
  holds: z.array(z.string()),
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
export type RemovedAnswer = z.output<typeof removedAnswerSchema>;
export type RetentionAnswer = z.output<typeof retentionAnswerSchema>;
export type ErrorAnswer = z.output<typeof errorAnswerSchema>;
/** The answer to each command that was carried out. */
export interface CommandAnswers {
  readonly create: CommittedAnswer;
  readonly update: CommittedAnswer;
  readonly finalize: CommittedAnswer;
  readonly link: CommittedAnswer;
  readonly take: OwnershipAnswer;
  readonly release: OwnershipAnswer;
  readonly handoff: HandoffAnswer;
  readonly acknowledge: AcknowledgedAnswer;
  readonly cancel_handoff: HandoffAnswer;
  readonly recover: RecoveryAnswer;
  readonly remove: RemovedAnswer;
  readonly retain: RetentionAnswer;
  readonly hold: RetentionAnswer;
  readonly shred_request: ShredAnswer;
  readonly shred_approve: ShredAnswer;
  readonly shred_cancel: ShredAnswer;
  readonly signature_add: SignatureAnswer;
  readonly fork: CommittedAnswer;
  readonly mission_start: MissionAnswer;
  readonly mission_update: MissionAnswer;
  readonly mission_checkpoint: MissionCheckpointAnswer;
  readonly mission_resume: ResumptionAnswer;
  readonly sortie_add: MissionAnswer;
  readonly sortie_update: MissionAnswer;
  readonly lock_acquire: LockAnswer;
  readonly lock_renew: LockAnswer;
  readonly lock_release: LockAnswer;
  readonly message_send: MessageAnswer;
  readonly message_ack: MessageAnswer;
  readonly message_cancel: MessageAnswer;
  readonly mailbox_subscribe: MailboxAnswer;
  readonly import_begin: OwnershipAnswer;
  readonly import_version: CommittedAnswer;
  readonly import_removed: CommittedAnswer;
  readonly import_records: OwnershipAnswer;
  readonly import_end: OwnershipAnswer;
}
export type CommandAnswer = CommandAnswers[CommandOp];
