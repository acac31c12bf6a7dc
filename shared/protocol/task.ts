/** A task as queries answer it. How it changes: `shared/lifecycle`. */
import { z } from "zod";
import { placedHoldSchema } from "./holds.ts";
import { taskRecoverySchema } from "./recovery-record.ts";
import { BLOCK_REASONS } from "./recovery-states.ts";
import { taskShredSchema } from "./shred.ts";

export const TASK_STATES = ["active", "handing_off", "blocked", "completed", "failed", "cancelled"] as const;
export type TaskState = (typeof TASK_STATES)[number];

/** An ended task is never handed off or recovered. A checkpoint written to it opens it again. */
export function isEnded(state: TaskState): boolean {
  return state === "completed" || state === "failed" || state === "cancelled";
}

/** The reason of a block, and its alert. */
const blockSchema = z.looseObject({
  reason: z.enum(BLOCK_REASONS),
  /** For operators. */
  details: z.string().nullable(),
  at: z.string(),
  /** The audit entry that operators were alerted of; null: not known. */
  alert_seq: z.int().nullable(),
  /** The agent that has taken the task since and not written yet; null: none. */
  taken_by: z.string().nullable(),
});
export type Block = z.infer<typeof blockSchema>;

/** The fleet and tenant from which the task was imported, and how far. */
export const taskOriginSchema = z.looseObject({
  fleet: z.string().max(64).nullable(),
  tenant: z.string(),
  /** The newest audit entry of the origin, and its hash: they prove its whole trail. */
  audit_seq: z.int().min(1),
  audit_hash: z.string(),
  /** Of the task's lines in the export file, or of its files in the mirror. */
  digest: z.string(),
  /** Absent: an export file. */
  source: z.literal("mirror").optional(),
  /** The versions of checkpoints and the removed checkpoints in all, and those imported so far. */
  versions: z.int().min(0),
  imported: z.int().min(0),
  /** The records of its mission in all, and those imported so far. Absent: it has none. */
  records: z.int().min(0).exactOptional(),
  imported_records: z.int().min(0).exactOptional(),
  /** Until then the task accepts no other command. */
  complete: z.boolean(),
});
export type TaskOrigin = z.infer<typeof taskOriginSchema>;

export const taskSchema = z.object({
  task_id: z.string(),
  tenant: z.string(),
  state: z.enum(TASK_STATES),
  /** The phase of the newest checkpoint; null, like `latest_id`, while the task has none. */
  phase: z.string().nullable(),
  /** The author of the newest checkpoint. */
  agent_id: z.string().nullable(),
  agent_type: z.string().nullable(),
  /** The newest checkpoint, and the newest one finalized as succeeded. */
  latest_id: z.string().nullable(),
  last_successful_id: z.string().nullable(),
  /** The number of checkpoints. */
  seq: z.int(),
  /** The agent that has taken the task and not released it. */
  owner: z.string().nullable(),
  /** How often the task was taken. */
  fence: z.int(),
  /** The open handoff; null: none is open. */
  handoff_id: z.string().nullable(),
  /** null: no agent of the task has failed, and the task does not wait for an operator. */
  recovery: taskRecoverySchema.nullable(),
  /** null: the task is not blocked. */
  blocked: blockSchema.nullable(),
  /** Absent: nothing was said about the retention of the task, and it has no hold. */
  retention: z
    .looseObject({
      /** The policy of new checkpoints that name none; null: that of the settings. */
      policy: z.string().nullable(),
      /** While there is one, nothing of the task is removed. */
      holds: z.array(z.string()),
      /** How each was placed. Absent, also for one of them: an earlier version placed it. */
      placed: z.array(placedHoldSchema).exactOptional(),
    })
    .exactOptional(),
  /** Absent: its shredding is not requested. */
  shred: taskShredSchema.exactOptional(),
  /** null: the task began in this fleet. */
  origin: taskOriginSchema.nullable().default(null),
  /** The newest audit entry and its hash. */
  audit_seq: z.int(),
  audit_hash: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
});

export type Task = z.infer<typeof taskSchema>;

/** A task in a list. */
export const listedTaskSchema = taskSchema.extend({
  /** Of the newest checkpoint; null: it states none, it is corrupt, or the task has no checkpoint. */
  progress_percent: z.number().nullable(),
});

export type ListedTask = z.infer<typeof listedTaskSchema>;
