/** The requests and answers of the HTTP API that are none of a command or a query. */
import { z } from "zod";
import { principalSchema, tokenSchema } from "../ids.ts";
import { CLIENT_ROLES } from "../permissions.ts";
import { recoverFields } from "../recovery-record.ts";

const { checkpoint_id: _, ...recoveryChoices } = recoverFields;

/** The body of `POST /checkpoints/{checkpoint_id}/recover` (seed 002). */
export const recoverCheckpointSchema = z.looseObject({
  /** Change nothing, and answer with what the recovery would do. */
  dry_run: z.boolean().default(false),
  /** The principal that recovers: the caller itself. */
  agent_id: principalSchema.optional(),
  ...recoveryChoices,
});

/** The answer to `GET /caller`. */
export const callerSchema = z.looseObject({
  tenant: tokenSchema,
  name: principalSchema,
  /** null: known to the bus alone. */
  role: z.enum(CLIENT_ROLES).nullable(),
  /** The time at which the credentials end. null: they have no end. */
  expires_at: z.string().nullable(),
});

/** The members of the body of `POST /checkpoints` beside those of the checkpoint. */
export const CREATE_MEMBERS = ["task_id", "agent_type", "fence", "expected_version", "handoff"] as const;
