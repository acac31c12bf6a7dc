/** The requests and answers of the HTTP API that are none of a command or a query. */
import { z } from "zod";
import { artifactReferenceSchema } from "../artifacts.ts";
import { principalSchema, tokenSchema } from "../ids.ts";
import { recoveryContextSchema } from "../mission.ts";
import { recoverFields } from "../recovery-record.ts";
import { pruneFields, REMOVAL_REASONS } from "../retention.ts";
import { CLIENT_ROLES } from "../roles.ts";

const { checkpoint_id: _, ...choices } = recoverFields;
/** What a recovery may state about the next agent of a task. */
export const recoveryChoices = choices;

/** The body of `POST /checkpoints/{checkpoint_id}/recover` (seed 002). */
export const recoverCheckpointSchema = z.looseObject({
  /** Change nothing, and answer with what the recovery would do. */
  dry_run: z.boolean().default(false),
  /** The principal that recovers: the caller itself. */
  agent_id: principalSchema.optional(),
  ...recoveryChoices,
});

/** The artifacts of a checkpoint, in its own order. */
export const checkpointArtifactsSchema = z.looseObject({ artifacts: z.array(artifactReferenceSchema) });

/** The body of `POST /checkpoints/prune` (seed 002). */
export const pruneSchema = z.looseObject({
  /** Change nothing, and list what would be removed. */
  dry_run: z.boolean().default(false),
  older_than_days: pruneFields.older_than_days.nullable(),
  /** How many of the newest checkpoints of each task stay. */
  keep_per_mission: pruneFields.keep.nullable(),
  /** Only of this task. A mission is a task. */
  mission_id: tokenSchema.nullable().optional(),
});

export const prunedSchema = z.looseObject({
  deleted: z.int(),
  freed_bytes: z.int(),
  details: z.array(
    z.looseObject({ id: z.string(), mission_id: z.string(), reason: z.enum(REMOVAL_REASONS) }),
  ),
  /** True: there are more; send the request again. */
  more: z.boolean(),
});
export type Pruned = z.output<typeof prunedSchema>;

/** The answer to `GET /caller`. */
export const callerSchema = z.looseObject({
  tenant: tokenSchema,
  name: principalSchema,
  /** null: known to the bus alone. */
  role: z.enum(CLIENT_ROLES).nullable(),
  /** The operations for which the credentials are. null: all that the role may do. */
  scopes: z.array(z.string()).nullable(),
  /** The time at which the credentials end. null: they have no end. */
  expires_at: z.string().nullable(),
});

/** The members of the body of `POST /checkpoints` beside those of the checkpoint. */
export const CREATE_MEMBERS = ["task_id", "agent_type", "fence", "expected_version", "handoff"] as const;

/** The answer to `POST /checkpoints/{checkpoint_id}/recover`. */
export const recoveredSchema = z.looseObject({
  success: z.boolean(),
  dry_run: z.boolean(),
  /** Of a mission: for the prompt of its coordinator. */
  recovery_context: recoveryContextSchema.exactOptional(),
  /** Of a mission: what was restored, or would be. */
  restored: z.object({ sorties: z.int(), locks: z.int(), messages: z.int() }).exactOptional(),
  /** Of any other task: its recovery, or with `dry_run` the preview. */
  recovery: z.looseObject({}).exactOptional(),
  preview: z.looseObject({}).exactOptional(),
});
