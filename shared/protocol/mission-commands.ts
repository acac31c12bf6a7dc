/**
 * The commands of missions. The subject names the mission as the task, and the agent that acts. A command of the
 * coordinator carries the fence of the task; a specialist changes only its own sorties and needs no fence.
 */
import { z } from "zod";
import { besideCheckpoints } from "./esign.ts";
import { checkpointIdSchema, commandIdSchema, principalSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import {
  filesSchema,
  MISSION_STATUSES,
  missionStatusSchema,
  recoveryContextSchema,
  sortieCountsSchema,
  sortieStatusSchema,
} from "./mission.ts";
import { MISSION_ANSWER_FIELDS } from "./mission-answer.ts";
import { LOCK_COMMAND_SCHEMAS } from "./mission-locks.ts";
import { MESSAGE_COMMAND_SCHEMAS, skippedMessageSchema } from "./mission-messages.ts";
import { redact } from "./redaction.ts";
import { redactionsSchema } from "./redaction-report.ts";

const envelope = {
  command_id: commandIdSchema,
  /** The coordinator's fence, required once the task has an owner. */
  fence: z.int().min(0).optional(),
  /** How many secrets each rule has removed from the command. */
  redactions: redactionsSchema.optional(),
};

/** Secrets are left out of missions, because their texts reach every specialist and every snapshot (seed 002, security). */
const safeText = (schema: z.ZodString) => schema.transform((text) => redact(text, "stored").text);

const titleSchema = safeText(z.string().min(1, "at least one character").max(LIMITS.mission_title_chars_max));
const descriptionSchema = safeText(z.string().max(LIMITS.mission_description_chars_max));
const notesSchema = safeText(z.string().max(LIMITS.progress_notes_chars_max));

/** `agent_type`: the type of the agent that continues the mission if its coordinator fails. */
export const missionStartCommandSchema = z.looseObject({
  ...envelope,
  title: titleSchema,
  description: descriptionSchema.optional(),
  agent_type: tokenSchema.default("implementation"),
  /** `pending`: the mission begins with its first sortie in progress. */
  status: z.enum(["pending", "in_progress"], { error: "pending or in_progress" }).default("in_progress"),
});

/** The end of a mission writes its final checkpoint and ends the task. */
export const missionUpdateCommandSchema = z
  .looseObject({
    ...envelope,
    title: titleSchema.optional(),
    description: descriptionSchema.optional(),
    status: missionStatusSchema.exclude(["pending"]).optional(),
  })
  .refine(
    ({ title, description, status }) =>
      title !== undefined || description !== undefined || status !== undefined,
    { path: ["status"], error: "a title, a description or a status" },
  );

const newSortieSchema = z.looseObject({
  /** Default: `srt-` and the number of the sortie. */
  sortie_id: tokenSchema.optional(),
  title: titleSchema,
  files: filesSchema.default([]),
  assigned_to: principalSchema.optional(),
});

export const sortieAddCommandSchema = z.looseObject({
  ...envelope,
  sorties: z.array(newSortieSchema).min(1, "at least one sortie").max(LIMITS.sortie_batch_count_max),
});

/** A specialist changes `status`, `files` and `progress_notes` of a sortie that is assigned to it. */
export const sortieUpdateCommandSchema = z
  .looseObject({
    ...envelope,
    sortie_id: tokenSchema,
    status: sortieStatusSchema.optional(),
    /** null: the sortie is assigned to no agent. */
    assigned_to: principalSchema.nullable().optional(),
    title: titleSchema.optional(),
    files: filesSchema.optional(),
    progress_notes: notesSchema.optional(),
  })
  .refine(
    ({ status, assigned_to, title, files, progress_notes }) =>
      [status, assigned_to, title, files, progress_notes].some((one) => one !== undefined),
    { path: ["status"], error: "a status, assigned_to, title, files or progress_notes" },
  );

/** `error`: what failed; it becomes a blocker of the recovery context (US-302). By default the trigger is `manual`. */
export const missionCheckpointCommandSchema = z
  .looseObject({
    ...envelope,
    /** A command of the same task that was answered `queued`: this one is applied after it. */
    after: commandIdSchema.optional(),
    note: notesSchema.optional(),
    error: z.looseObject({ name: z.string().max(LIMITS.id_chars_max), message: notesSchema }).optional(),
    /** The context of the caller is compacted: the trigger is `compaction`, and the mission can be resumed at once. */
    compaction: z.boolean().optional(),
  })
  .refine(({ error, compaction }) => error === undefined || compaction !== true, {
    path: ["compaction"],
    error: "an error or a compaction, not both",
  });

/** Without `checkpoint_id`: from the newest checkpoint with a snapshot, and the progress of working specialists is kept. */
const missionResumeCommandSchema = z.looseObject({
  ...envelope,
  checkpoint_id: checkpointIdSchema.optional(),
});

/** The mission after a command. */
export const missionAnswerSchema = z.looseObject({
  ...MISSION_ANSWER_FIELDS,
  mission_status: z.enum(MISSION_STATUSES),
  progress_percent: z.int(),
  /** The checkpoint that the command wrote: at a milestone, or at the end of the mission. */
  checkpoint_id: z.string().exactOptional(),
  /** The sorties that the command added or changed, in their order. */
  sortie_ids: z.array(z.string()).exactOptional(),
});

/** The answer to `mission_checkpoint`. */
export const missionCheckpointAnswerSchema = z.looseObject({
  ...MISSION_ANSWER_FIELDS,
  mission_status: z.enum(MISSION_STATUSES),
  progress_percent: z.int(),
  checkpoint_id: z.string(),
  version: z.int(),
  seq: z.int(),
  hash: z.string(),
  sorties: sortieCountsSchema,
  lock_count: z.int(),
  /** All that are not delivered. */
  message_count: z.int(),
  /** Of these: those that have failed. Absent: none. */
  failed_message_count: z.int().exactOptional(),
  warnings: z.array(z.string()).exactOptional(),
});

const restoredSchema = z.object({ sorties: z.int(), locks: z.int(), messages: z.int() });

/** The answer to `mission_resume`. */
export const resumptionAnswerSchema = z.looseObject({
  ...MISSION_ANSWER_FIELDS,
  mission_status: z.enum(MISSION_STATUSES),
  progress_percent: z.int(),
  /** The checkpoint from which the mission resumed. */
  checkpoint_id: z.string(),
  restored: restoredSchema,
  /** Sorties of working specialists, which stayed as they were. */
  kept_sorties: z.array(z.string()),
  /** Newer checkpoints that are corrupt. */
  passed_over: z.array(z.string()),
  /** What the resumption found: locks that have expired, and those that another agent holds. */
  blockers: z.array(z.string()).exactOptional(),
  /** Messages of the snapshot that are queued again. */
  requeued_messages: z.array(z.string()).exactOptional(),
  /** Messages of the snapshot that are not, each with the reason. */
  skipped_messages: z.array(skippedMessageSchema).exactOptional(),
  /** Holders of locks that got a message: another agent needs the file, or the lock had expired. */
  notified: z
    .array(z.object({ agent_id: z.string(), path: z.string(), message_id: z.string() }))
    .exactOptional(),
  /** Checkpoints that the store had lost or held corrupt, and has again from their copies. Absent: none. */
  restored_copies: z.array(z.string()).exactOptional(),
  /** For the prompt of the coordinator. Absent if it cannot be read now. */
  recovery_context: recoveryContextSchema.exactOptional(),
});

export const resumePreviewSchema = z.looseObject({
  mission_id: z.string(),
  checkpoint_id: z.string(),
  /** Of the checkpoint. */
  progress_percent: z.int(),
  completed_sorties: z.int(),
  total_sorties: z.int(),
  restored: restoredSchema,
  /** The sorties whose records would change. `status_from` null: the record is lost. */
  changes: z.array(
    z.object({
      sortie_id: z.string(),
      status_from: sortieStatusSchema.nullable(),
      status_to: sortieStatusSchema,
    }),
  ),
  kept_sorties: z.array(z.string()),
  passed_over: z.array(z.string()),
  /** Messages that would be queued again. */
  messages: z.array(
    z.object({ message_id: z.string(), from: z.string(), to: z.array(z.string()), subject: z.string() }),
  ),
  skipped_messages: z.array(skippedMessageSchema),
  /** As in the answer to `mission_resume`. */
  restored_copies: z.array(z.string()).exactOptional(),
  /** Checkpoints that are used, and whose files the mirror lacks. Absent: none. */
  missing_copies: z.array(z.string()).exactOptional(),
  recovery_context: recoveryContextSchema,
  ...besideCheckpoints,
});

export const MISSION_COMMAND_SCHEMAS = {
  mission_start: missionStartCommandSchema,
  mission_update: missionUpdateCommandSchema,
  mission_checkpoint: missionCheckpointCommandSchema,
  mission_resume: missionResumeCommandSchema,
  sortie_add: sortieAddCommandSchema,
  sortie_update: sortieUpdateCommandSchema,
  ...LOCK_COMMAND_SCHEMAS,
  ...MESSAGE_COMMAND_SCHEMAS,
} as const;

export type MissionOp = keyof typeof MISSION_COMMAND_SCHEMAS;
export type MissionAnswer = z.output<typeof missionAnswerSchema>;
export type MissionCheckpointAnswer = z.output<typeof missionCheckpointAnswerSchema>;
export type MissionResumeCommand = z.output<typeof missionResumeCommandSchema>;
export type ResumptionAnswer = z.output<typeof resumptionAnswerSchema>;
export type MissionStartCommand = z.output<typeof missionStartCommandSchema>;
export type MissionUpdateCommand = z.output<typeof missionUpdateCommandSchema>;
export type MissionCheckpointCommand = z.output<typeof missionCheckpointCommandSchema>;
export type SortieAddCommand = z.output<typeof sortieAddCommandSchema>;
export type SortieUpdateCommand = z.output<typeof sortieUpdateCommandSchema>;
