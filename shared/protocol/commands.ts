/**
 * Commands: the requests that change state. Each carries a `command_id` that its caller made and keeps across
 * retries, so that any number of copies has one effect and one answer. Tenant, agent and task come from the
 * subject, which the server's permissions guard, never from the body.
 */
import { z } from "zod";
import { checkpointInputSchema, FINAL_STATUSES, PHASES } from "./checkpoint.ts";
import { signatureAddCommandSchema } from "./esign.ts";
import { handoffFields, handoffOptionsSchema, handoffReasonSchema } from "./handoff-record.ts";
import { holdCommandSchema } from "./holds.ts";
import { checkpointIdSchema, commandIdSchema, digestSchema, principalSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { MISSION_COMMAND_SCHEMAS } from "./mission-commands.ts";
import { missionRecordSchema } from "./mission-record.ts";
import type { CommandOp } from "./operations.ts";
import { recoverFields } from "./recovery-record.ts";
import { redactionsSchema } from "./redaction-report.ts";
import { pruneFields, REMOVAL_REASONS, retentionSchema } from "./retention.ts";
import { SHRED_COMMAND_SCHEMAS } from "./shred.ts";

/**
 * The agent promises to send heartbeats from now on, and loses the task when it is silent, even if no
 * heartbeat ever came. Without the promise an agent is watched from its first heartbeat on.
 */
const heartbeats = z.boolean().optional();

const envelope = {
  command_id: commandIdSchema,
  /** The caller's fence, required once the task has had an owner. */
  fence: z.int().min(0).optional(),
  /** A command of the same task that was answered `queued`: this one is applied after it. */
  after: commandIdSchema.optional(),
  /** How many secrets each rule has removed from the command. */
  redactions: redactionsSchema.optional(),
};

/** The answer has the checkpoint as it is stored (seed 000 §5.1). */
const includeCheckpoint = z.boolean().optional();

/**
 * The new checkpoint gets the id of the command. `expected_version` is the number of checkpoints that the
 * task has so far. In phase `handoff` the command opens a handoff of the same id, with the options in
 * `handoff`.
 */
export const createCommandSchema = z
  .looseObject({
    ...envelope,
    checkpoint: checkpointInputSchema,
    expected_version: z.int().min(0).optional(),
    handoff: handoffOptionsSchema.optional(),
    include_checkpoint: includeCheckpoint,
  })
  .refine(
    ({ checkpoint, handoff }) => handoff === undefined || checkpoint.execution_state.phase === "handoff",
    {
      path: ["handoff"],
      error: "absent, unless checkpoint.execution_state.phase is handoff",
    },
  );

/** `patch` is a JSON merge patch (RFC 7396) to the sections that an agent may write. */
export const updateCommandSchema = z.looseObject({
  ...envelope,
  checkpoint_id: checkpointIdSchema,
  patch: z.looseObject({}),
  expected_version: z.int().min(1).optional(),
  include_checkpoint: includeCheckpoint,
});

export const finalizeCommandSchema = z.looseObject({
  ...envelope,
  checkpoint_id: checkpointIdSchema,
  status: z.enum(FINAL_STATUSES, { error: `one of ${FINAL_STATUSES.join(", ")}` }),
  retention_policy: retentionSchema.optional(),
  expected_version: z.int().min(1).optional(),
});

export const linkCommandSchema = z.looseObject({
  ...envelope,
  parent_id: checkpointIdSchema,
  child_id: checkpointIdSchema,
  expected_version: z.int().min(1).optional(),
});

/**
 * Makes the caller the owner of the task and raises the fence. It needs no fence, because it is the command
 * to take over; a fence that is given must be the current one. `expected_fence`: refuse unless the task has
 * this fence, so that one of two competing callers is refused.
 */
export const takeCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  expected_fence: z.int().min(0).optional(),
  heartbeats,
});

/** Releases the task. The fence stays as it is: it never falls. */
export const releaseCommandSchema = z.looseObject({
  ...envelope,
  fence: z.int().min(1),
});

/** Opens a handoff of an existing checkpoint: the task's latest one, unless the command names another. */
export const handoffCommandSchema = z.looseObject({
  ...envelope,
  checkpoint_id: checkpointIdSchema.optional(),
  ...handoffFields,
});

/**
 * Accepts an offer and makes the caller the owner of the task under the next fence. Like `take` it needs no
 * fence. Handoff, checkpoint, agent type and digest must be those of the latest offer.
 */
export const acknowledgeCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  handoff_id: checkpointIdSchema,
  checkpoint_id: checkpointIdSchema,
  agent_type: tokenSchema,
  /** `digest` of the offer, which an agent computes from the offer that it received. */
  offer_digest: digestSchema,
  heartbeats,
});

/** Cancels a handoff that no agent has accepted yet: the open one, unless the command names another. */
export const cancelHandoffCommandSchema = z.looseObject({
  ...envelope,
  handoff_id: checkpointIdSchema.optional(),
  reason: handoffReasonSchema.optional(),
});

/**
 * Recovers the task now: its owner loses it, and another agent continues from `checkpoint_id`, or else from
 * the newest sound checkpoint. Like `take` it needs no fence. `reset`: restore the whole budget. `force`:
 * recover although the owner is alive.
 */
export const recoverCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  ...recoverFields,
});

/**
 * Removes one checkpoint, unless retention keeps it. It needs no fence. `if_due`: only if a prune with these
 * values would remove it now; otherwise its age is not asked.
 */
export const removeCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  checkpoint_id: checkpointIdSchema,
  ...pruneFields,
  if_due: z.boolean().default(false),
});

/** An earlier version had both in one command. A hold must not be lost because its sender is of that version. */
const ofHold = z.undefined({ error: "absent: the command `hold` places and releases holds" }).optional();

/**
 * Changes what is kept of a task. `retention_policy`: of new checkpoints that name none; null: that of the
 * settings.
 */
export const retainCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  retention_policy: retentionSchema.nullable(),
  hold: ofHold,
  release: ofHold,
});

/**
 * Creates the task of the subject. Its first checkpoint, which gets the id of the command, has the state of a
 * checkpoint of `source_task_id`: of `source_checkpoint_id`, or else of the newest sound one. `goal` and `note`
 * replace the goal and the details of the trigger; `agent_type` replaces the type of the source's author.
 */
export const forkCommandSchema = z.looseObject({
  ...envelope,
  source_task_id: tokenSchema,
  source_checkpoint_id: checkpointIdSchema.optional(),
  agent_type: tokenSchema.optional(),
  goal: z.string().min(1, "at least one character").optional(),
  note: z.string().min(1, "at least one character").optional(),
});

/** Begins the import of a task that does not exist here. `fence`: the newest one of the origin; its agents stay superseded. */
export const importBeginCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  /** Not needed: the task has no owner. */
  fence: z.int().min(0).optional(),
  origin: z.looseObject({
    fleet: z.string().max(LIMITS.id_chars_max).nullable(),
    tenant: tokenSchema,
    fence: z.int().min(0).max(LIMITS.origin_fence_max),
    audit_seq: z.int().min(1),
    audit_hash: digestSchema,
    digest: digestSchema,
    versions: z.int().min(0),
    /** The records of its mission. Absent: none, or it is no mission. */
    records: z.int().min(0).exactOptional(),
    /**
     * `mirror`: the versions come from the files of a lost store, so each is the only one of its checkpoint, and may lack neighbours. It
     * becomes version 1 at the next position. Default: an export file.
     */
    source: z.literal("mirror", { error: "mirror, or absent" }).optional(),
  }),
});

/** The next version of the import, as it was stored, without its hash. All versions of one checkpoint come before the next checkpoint. */
export const importVersionCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  /** Not needed: the task has no owner. */
  fence: z.int().min(0).optional(),
  /** From 0. */
  index: z.int().min(0),
  hash: digestSchema,
  checkpoint: z.looseObject({}),
});

/**
 * In place of the versions of a checkpoint that retention removed in the origin: its position stays taken. `removed_at` and `removed_by` are
 * of that removal; `phase` and `items` of its newest version.
 */
export const importRemovedCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  /** Not needed: the task has no owner. */
  fence: z.int().min(0).optional(),
  /** From 0, counted with the versions. */
  index: z.int().min(0),
  removed: z.looseObject({
    checkpoint_id: checkpointIdSchema,
    seq: z.int().min(1),
    /** The newest version, and its hash in the origin. */
    version: z.int().min(1),
    hash: digestSchema,
    /** The checkpoint that is left to fall back to; null: none. */
    fallback_id: checkpointIdSchema.nullable(),
    reason: z.enum(REMOVAL_REASONS, { error: `one of ${REMOVAL_REASONS.join(", ")}` }),
    retention_policy: z.string().min(1).max(LIMITS.id_chars_max),
    removed_at: z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" }),
    /** The service or operator. */
    removed_by: principalSchema,
    phase: z.enum(PHASES, { error: `one of ${PHASES.join(", ")}` }),
    agent_id: principalSchema,
    agent_type: tokenSchema,
    items: z.int().min(0),
  }),
});

/** The next records of the mission, after the last version. */
export const importRecordsCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  /** Not needed: the task has no owner. */
  fence: z.int().min(0).optional(),
  /** Of the first one, from 0. */
  index: z.int().min(0),
  records: z
    .array(missionRecordSchema.extend({ hash: digestSchema }))
    .min(1, "at least one record")
    .max(LIMITS.import_records_count_max)
    .refine(
      (records) =>
        records.reduce((sum, { bytes }) => sum + bytes.length, 0) <= LIMITS.import_records_chars_max,
      `at most ${LIMITS.import_records_chars_max} characters of Base64 in all`,
    ),
});

/** Ends the import after the last version and the last record. A task that was handed off, blocked or recovering becomes active. */
export const importEndCommandSchema = z.looseObject({
  command_id: commandIdSchema,
  /** Not needed: the task has no owner. */
  fence: z.int().min(0).optional(),
  state: z.enum(["active", "completed", "failed", "cancelled"], {
    error: "one of active, completed, failed, cancelled",
  }),
  last_successful_id: checkpointIdSchema.nullable(),
});

export const COMMAND_SCHEMAS = {
  create: createCommandSchema,
  update: updateCommandSchema,
  finalize: finalizeCommandSchema,
  link: linkCommandSchema,
  take: takeCommandSchema,
  release: releaseCommandSchema,
  handoff: handoffCommandSchema,
  acknowledge: acknowledgeCommandSchema,
  cancel_handoff: cancelHandoffCommandSchema,
  recover: recoverCommandSchema,
  remove: removeCommandSchema,
  retain: retainCommandSchema,
  hold: holdCommandSchema,
  ...SHRED_COMMAND_SCHEMAS,
  signature_add: signatureAddCommandSchema,
  fork: forkCommandSchema,
  ...MISSION_COMMAND_SCHEMAS,
  import_begin: importBeginCommandSchema,
  import_version: importVersionCommandSchema,
  import_removed: importRemovedCommandSchema,
  import_records: importRecordsCommandSchema,
  import_end: importEndCommandSchema,
} as const satisfies Record<CommandOp, z.ZodType>;

export type CommandBody<Op extends CommandOp> = z.output<(typeof COMMAND_SCHEMAS)[Op]>;
export type CommandBodyInput<Op extends CommandOp> = z.input<(typeof COMMAND_SCHEMAS)[Op]>;
export type CreateCommand = z.output<typeof createCommandSchema>;
export type UpdateCommand = z.output<typeof updateCommandSchema>;
export type FinalizeCommand = z.output<typeof finalizeCommandSchema>;
export type LinkCommand = z.output<typeof linkCommandSchema>;
export type HandoffCommand = z.output<typeof handoffCommandSchema>;
export type AcknowledgeCommand = z.output<typeof acknowledgeCommandSchema>;
export type CancelHandoffCommand = z.output<typeof cancelHandoffCommandSchema>;
export type RecoverCommand = z.output<typeof recoverCommandSchema>;
export type RemoveCommand = z.output<typeof removeCommandSchema>;
export type RetainCommand = z.output<typeof retainCommandSchema>;
export type ForkCommand = z.output<typeof forkCommandSchema>;
export type ImportBeginCommand = z.output<typeof importBeginCommandSchema>;
export type ImportVersionCommand = z.output<typeof importVersionCommandSchema>;
export type ImportRemovedCommand = z.output<typeof importRemovedCommandSchema>;
export type ImportRecordsCommand = z.output<typeof importRecordsCommandSchema>;
export type ImportEndCommand = z.output<typeof importEndCommandSchema>;
export type TakeCommand = z.output<typeof takeCommandSchema>;

/** The origin of a command, taken from its subject. */
export interface Actor {
  readonly tenant: string;
  readonly agent: string;
  readonly task: string;
}
