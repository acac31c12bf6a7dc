/** The checkpoints of missions over HTTP, in the form of seed 002 ("API endpoints"). */
import { z } from "zod";
import type { Checkpoint } from "../checkpoint.ts";
import { besideCheckpoints } from "../esign.ts";
import { prefixedCheckpointId, principalSchema, tokenSchema } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import {
  lockSnapshotSchema,
  messageSnapshotSchema,
  recoveryContextSchema,
  sortieSnapshotSchema,
} from "../mission.ts";

/** The body of `POST /checkpoints` for a mission. The fleet itself records the state of sorties, locks and messages. */
export const createMissionCheckpointSchema = z.looseObject({
  mission_id: tokenSchema,
  /** The fleet writes `progress` itself, at milestones. `compaction`: the caller loses its context, as in `mission_checkpoint`. */
  trigger: z
    .enum(["manual", "error", "compaction"], { error: "manual, error or compaction" })
    .default("manual"),
  /** For an error `NAME: MESSAGE`, which becomes a blocker. */
  trigger_details: z.string().max(LIMITS.progress_notes_chars_max).optional(),
  /** The principal that writes: the caller itself. */
  created_by: principalSchema.optional(),
  /** The coordinator's fence. Default: that of the task, if the caller owns it. */
  fence: z.int().min(0).optional(),
});

/** A checkpoint in a list of a mission's. */
export const listedMissionCheckpointSchema = z.looseObject({
  id: z.string(),
  mission_id: z.string(),
  /** The time of the commit. */
  timestamp: z.string(),
  trigger: z.string(),
  trigger_details: z.string().exactOptional(),
  /** null: the checkpoint states none. */
  progress_percent: z.number().nullable(),
});

/** `Checkpoint` of seed 002. */
export const missionCheckpointSchema = listedMissionCheckpointSchema.extend({
  sorties: z.array(sortieSnapshotSchema.partial()),
  active_locks: z.array(lockSnapshotSchema.partial()),
  pending_messages: z.array(messageSnapshotSchema.partial()),
  recovery_context: recoveryContextSchema.partial(),
  created_by: z.string(),
  version: z.string(),
});

/** The answer to `GET /checkpoints?mission_id=…`. */
export const missionCheckpointPageSchema = z.looseObject({
  checkpoints: z.array(listedMissionCheckpointSchema),
  /** The number of the mission's checkpoints. null: more than a thousand. */
  total: z.int().nullable(),
  cursor: z.string().exactOptional(),
  ...besideCheckpoints,
});

type ListedMissionCheckpoint = z.output<typeof listedMissionCheckpointSchema>;
type MissionCheckpointMembers = z.output<typeof missionCheckpointSchema>;

export function listedMissionCheckpoint({
  metadata,
  execution_state,
  fleet,
}: Checkpoint): ListedMissionCheckpoint {
  const { reason, details } = metadata.trigger;
  return {
    id: prefixedCheckpointId(metadata.checkpoint_id),
    mission_id: metadata.task_id,
    timestamp: metadata.committed_at,
    trigger: reason,
    ...(details !== undefined && { trigger_details: details }),
    progress_percent: fleet?.progress_percent ?? execution_state.progress_percent ?? null,
  };
}

/** undefined: the checkpoint has no part of a mission. */
export function missionMembers(checkpoint: Checkpoint): MissionCheckpointMembers | undefined {
  const { schema_version, metadata, fleet } = checkpoint;
  if (fleet === undefined) return undefined;
  return {
    ...listedMissionCheckpoint(checkpoint),
    sorties: fleet.sorties,
    active_locks: fleet.active_locks,
    pending_messages: fleet.pending_messages,
    recovery_context: fleet.recovery_context ?? {},
    created_by: metadata.agent_id,
    version: `${schema_version}.0`,
  };
}
