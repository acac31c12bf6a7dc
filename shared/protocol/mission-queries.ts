/** The queries about missions. */

import { z } from "zod";
import { checkpointIdSchema, principalSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import {
  type Mission,
  missionSchema,
  missionStatusSchema,
  type RecoveryContext,
  recoveryContextSchema,
  sortieSchema,
  sortieStatusSchema,
} from "./mission.ts";
import type { resumePreviewSchema } from "./mission-commands.ts";
import { type LockList, locksQuerySchema } from "./mission-locks.ts";
import {
  type MailboxPage,
  type MessagePage,
  mailboxQuerySchema,
  messagesQuerySchema,
} from "./mission-messages.ts";
import { missionRecordSchema } from "./mission-record.ts";
import { pageLimit } from "./page-limit.ts";
import { taskSchema } from "./task.ts";

const cursor = z.string().max(1_024).optional();

/** Ordered by mission id. A mission must match all filters. */
const missionsQuerySchema = z.looseObject({
  status: missionStatusSchema.optional(),
  /** Only missions that have not ended. */
  active: z.boolean().default(false),
  /** Only silent missions that can be resumed from a checkpoint (seed 002, `recovery_candidates`). */
  recoverable: z.boolean().default(false),
  /** The coordinator. */
  agent_id: principalSchema.optional(),
  /** An agent that coordinates the mission, or to which an open sortie of it is assigned. */
  participant: principalSchema.optional(),
  limit: pageLimit(LIMITS.missions_limit_max, LIMITS.missions_limit_default),
  cursor,
});

/**
 * Without `mission_id`: the current mission, which is the active one with the newest activity; of the missions that
 * the caller coordinates, if there is any.
 */
const missionQuerySchema = z.looseObject({ mission_id: tokenSchema.optional() });

/** Ordered by sortie id. */
const sortiesQuerySchema = z.looseObject({
  mission_id: tokenSchema,
  status: sortieStatusSchema.optional(),
  assigned_to: principalSchema.optional(),
  limit: pageLimit(LIMITS.sorties_limit_max, LIMITS.sorties_limit_default),
  cursor,
});

/** `checkpoint_id`: the context that was recorded; otherwise the present one. `agent_id`: that of one specialist. */
const recoveryContextQuerySchema = z.looseObject({
  mission_id: tokenSchema,
  checkpoint_id: checkpointIdSchema.optional(),
  agent_id: principalSchema.optional(),
});

const resumePreviewQuerySchema = z.looseObject({
  mission_id: tokenSchema,
  checkpoint_id: checkpointIdSchema.optional(),
});

/**
 * The records of a mission as they are on disk, for an export. `after_seq`: only those that entries of the trail after this one
 * have written; all, if they are many.
 */
const missionRecordsQuerySchema = z.looseObject({
  mission_id: tokenSchema,
  after_seq: z.int().min(0).optional(),
  cursor,
});

/** `cursor` is absent on the last page. An earlier page may be shorter than `limit`. */
export const missionPageSchema = z.looseObject({
  missions: z.array(missionSchema),
  /** Names of missions whose records are damaged. */
  corrupt: z.array(z.string()),
  cursor: z.string().exactOptional(),
});

export const sortiePageSchema = z.looseObject({
  sorties: z.array(sortieSchema),
  cursor: z.string().exactOptional(),
});

/** The head of the task and the records are of one moment. So all records are of that moment if there is no further page. */
export const missionRecordPageSchema = z.looseObject({
  task: taskSchema,
  records: z.array(missionRecordSchema),
  cursor: z.string().exactOptional(),
});

export const missionResultSchema = z.looseObject({ mission: missionSchema });

export const MISSION_QUERY_SCHEMAS = {
  missions: missionsQuerySchema,
  mission: missionQuerySchema,
  sorties: sortiesQuerySchema,
  recovery_context: recoveryContextQuerySchema,
  resume_preview: resumePreviewQuerySchema,
  mission_records: missionRecordsQuerySchema,
  locks: locksQuerySchema,
  mailbox: mailboxQuerySchema,
  messages: messagesQuerySchema,
} as const;

export interface MissionQueryResults {
  missions: MissionPage;
  mission: { mission: Mission };
  sorties: SortiePage;
  /** null: the specialist has no sortie in the mission. */
  recovery_context: { recovery_context: RecoveryContext | null };
  resume_preview: ResumePreview;
  mission_records: MissionRecordPage;
  locks: LockList;
  mailbox: MailboxPage;
  messages: MessagePage;
}

export const recoveryContextResultSchema = z.looseObject({
  recovery_context: recoveryContextSchema.nullable(),
});

export type ResumePreview = z.output<typeof resumePreviewSchema>;
export type MissionPage = z.output<typeof missionPageSchema>;
export type MissionRecordPage = z.output<typeof missionRecordPageSchema>;
export type SortiePage = z.output<typeof sortiePageSchema>;
