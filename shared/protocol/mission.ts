/**
 * Missions (seed 002): a mission is a task whose work is divided into sorties. The agent that owns the task
 * coordinates the mission; specialists work on the sorties that are assigned to them. The snapshot of a mission
 * is the `fleet` section of a checkpoint, in the seed's names.
 */
import { z } from "zod";
import { principalSchema, senderSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";

export const MISSION_STATUSES = ["pending", "in_progress", "completed", "failed", "cancelled"] as const;
export type MissionStatus = (typeof MISSION_STATUSES)[number];

export const SORTIE_STATUSES = [
  "pending",
  "assigned",
  "in_progress",
  "blocked",
  "completed",
  "failed",
] as const;
export type SortieStatus = (typeof SORTIE_STATUSES)[number];

/** The percentages of completed sorties at which the fleet writes a checkpoint (US-301). */
export const MILESTONES = [25, 50, 75] as const;

export const missionStatusSchema = z.enum(MISSION_STATUSES, {
  error: `one of ${MISSION_STATUSES.join(", ")}`,
});
export const sortieStatusSchema = z.enum(SORTIE_STATUSES, { error: `one of ${SORTIE_STATUSES.join(", ")}` });

const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });
const text = z.string();
const chars = (most: number) => z.string().min(1, "at least one character").max(most);

export const fileSchema = chars(LIMITS.mission_file_chars_max);
export const filesSchema = z.array(fileSchema).max(LIMITS.sortie_files_count_max);

/** `SortieSnapshot` of seed 002. Absent members: not known. */
export const sortieSnapshotSchema = z.looseObject({
  id: tokenSchema,
  status: sortieStatusSchema,
  /** The specialist. */
  assigned_to: principalSchema.optional(),
  files: filesSchema,
  started_at: time.optional(),
  progress_notes: text.optional(),
  title: text.optional(),
});
export type SortieSnapshot = z.output<typeof sortieSnapshotSchema>;

/** `LockSnapshot` of seed 002. */
export const lockSnapshotSchema = z.looseObject({
  id: text,
  file: fileSchema,
  held_by: principalSchema,
  acquired_at: time,
  purpose: text,
  timeout_ms: z.int().min(1),
});
export type LockSnapshot = z.output<typeof lockSnapshotSchema>;

/** `MessageSnapshot` of seed 002. */
export const messageSnapshotSchema = z.looseObject({
  id: text,
  from: senderSchema,
  to: z.array(principalSchema),
  subject: text,
  sent_at: time,
  delivered: z.boolean(),
  /** The deadline was over before all recipients had acknowledged it. Absent: it is queued. */
  failed: z.boolean().optional(),
});
export type MessageSnapshot = z.output<typeof messageSnapshotSchema>;

/** `RecoveryContext` of seed 002: what a model needs to continue the mission, in sentences. */
export const recoveryContextSchema = z.looseObject({
  last_action: text,
  next_steps: z.array(text),
  blockers: z.array(text),
  files_modified: z.array(text),
  mission_summary: text,
  /** Since the mission began. */
  elapsed_time_ms: z.int().min(0),
  last_activity_at: text,
});
export type RecoveryContext = z.output<typeof recoveryContextSchema>;

/** The `fleet` section that the fleet writes itself, and from which a mission can be resumed. */
export const missionSnapshotSchema = z.looseObject({
  mission_id: tokenSchema,
  progress_percent: z.int().min(0).max(100),
  sorties: z.array(sortieSnapshotSchema),
  active_locks: z.array(lockSnapshotSchema),
  pending_messages: z.array(messageSnapshotSchema),
  recovery_context: recoveryContextSchema,
});
export type MissionSnapshot = z.output<typeof missionSnapshotSchema>;

const count = z.int().min(0);

export const sortieCountsSchema = z.object(
  Object.fromEntries(SORTIE_STATUSES.map((status) => [status, count])) as Record<SortieStatus, typeof count>,
);
export type SortieCounts = z.output<typeof sortieCountsSchema>;

/** The question to a coordinator whose mission can be resumed, in the words of seed 002. */
export const recoveryQuestion = (checkpointAt: string): string =>
  `Found checkpoint from ${checkpointAt}. Resume?`;

/** The mark of a mission without activity. */
const silenceSchema = z.object({
  /** The last activity before it. */
  since: text,
  detected_at: text,
  /** The checkpoint from which the mission can be resumed, and its time; null: there is none. */
  checkpoint_id: text.nullable(),
  checkpoint_at: text.nullable(),
});
export type Silence = Readonly<z.output<typeof silenceSchema>>;

/** A mission as queries answer it. */
export const missionSchema = z.looseObject({
  mission_id: text,
  title: text,
  description: text.nullable(),
  status: missionStatusSchema,
  /** Completed sorties in percent of all, rounded. */
  progress_percent: count,
  sorties: sortieCountsSchema,
  /** The highest milestone that was reached; 0: none. */
  milestone: count,
  /** The agent that owns the task and coordinates the mission, with its fence; null: none. */
  coordinator: text.nullable(),
  fence: count,
  /** The agent type that continues the mission. */
  agent_type: text,
  created_by: text,
  created_at: text,
  /** null: no work has begun. */
  started_at: text.nullable(),
  last_activity_at: text,
  /** null: the mission has not ended. */
  ended_at: text.nullable(),
  /** The newest checkpoint; null: there is none. */
  checkpoint_id: text.nullable(),
  /** Set while the mission is silent, until its next activity. */
  silence: silenceSchema.nullable(),
});
export type Mission = z.output<typeof missionSchema>;

/** A sortie as queries answer it. */
export const sortieSchema = z.looseObject({
  sortie_id: text,
  title: text,
  status: sortieStatusSchema,
  assigned_to: text.nullable(),
  files: z.array(text),
  progress_notes: text.nullable(),
  created_at: text,
  started_at: text.nullable(),
  ended_at: text.nullable(),
  last_activity_at: text,
});
export type Sortie = z.output<typeof sortieSchema>;
