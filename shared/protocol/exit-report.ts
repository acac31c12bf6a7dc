/** Exit reports: how the process of an agent ended, as its runner saw it, in the classes that recovery decides by. */
import { z } from "zod";
import { checkpointIdSchema, tokenSchema } from "./ids.ts";

/** `not_started`: the agent's command does not exist or could not be run. */
export const FAILURE_CLASSES = [
  "completed",
  "crash",
  "timeout",
  "out_of_memory",
  "rate_limit",
  "context_exhausted",
  "tool_error",
  "corrupt_state",
  "unrecoverable",
  "not_started",
] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];

const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });

export const exitReportSchema = z.looseObject({
  agent_id: tokenSchema,
  agent_type: tokenSchema,
  task_id: tokenSchema,
  /** Under which it had the task; 0: it never got it. */
  fence: z.int().min(0),
  handoff_id: checkpointIdSchema.optional(),
  class: z.enum(FAILURE_CLASSES, { error: `one of ${FAILURE_CLASSES.join(", ")}` }),
  /** null: a signal ended it, or it never ran. */
  exit_code: z.int().nullable(),
  signal: z.string().max(32).nullable(),
  started_at: time,
  ended_at: time,
  host: z.string().max(256),
  details: z.string().max(4_000).optional(),
  /** Of a rate limit: when the vendor serves again. */
  resets_at: time.optional(),
});

export type ExitReport = z.output<typeof exitReportSchema>;
