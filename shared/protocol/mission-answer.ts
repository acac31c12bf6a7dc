/** What every answer to a command of a mission has. */
import { z } from "zod";
import { redactedSchema } from "./redaction-report.ts";

export const MISSION_ANSWER_FIELDS = {
  status: z.literal("committed"),
  command_id: z.string(),
  task_id: z.string(),
  committed_at: z.string(),
  position: z.string(),
  replayed: z.boolean(),
  /** As in the answers to other commands. */
  redacted: redactedSchema.exactOptional(),
} as const;
