/**
 * Exit reports: the end of an agent's process as its runner saw it, in the failure classes that decide the
 * recovery.
 */
import { z } from "zod";
import { ERROR_TABLE } from "./errors.ts";
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

/**
 * The meaning of an agent's exit codes. Every other code is a crash, except those of signals. The runner's
 * README documents the table.
 */
export const EXIT_CLASSES: Readonly<Record<number, FailureClass>> = {
  0: "completed",
  // The agent found that another one owns its task, and ended as it should.
  [ERROR_TABLE.FENCED.exit]: "completed",
  [ERROR_TABLE.CORRUPT.exit]: "corrupt_state",
  [ERROR_TABLE.UNSUPPORTED_VERSION.exit]: "unrecoverable",
  64: "unrecoverable",
  69: "tool_error",
  70: "crash",
  75: "rate_limit",
  76: "context_exhausted",
  77: "unrecoverable",
  78: "unrecoverable",
  // By the convention of timeout(1) and shells.
  124: "timeout",
  126: "not_started",
  127: "not_started",
};

/** The exit code with which an agent reports its end. Running out of memory has no code of its own. */
export const EXIT_CODES: Readonly<Record<FailureClass, number>> = {
  completed: 0,
  crash: 70,
  timeout: 124,
  out_of_memory: 70,
  rate_limit: 75,
  context_exhausted: 76,
  tool_error: 69,
  corrupt_state: ERROR_TABLE.CORRUPT.exit,
  unrecoverable: 77,
  not_started: 126,
};

const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });

export const exitReportSchema = z.looseObject({
  /** A new UUIDv7, the same in each copy of the report. Its random part keeps others from taking it first. */
  report_id: checkpointIdSchema.optional(),
  agent_id: tokenSchema,
  agent_type: tokenSchema,
  task_id: tokenSchema,
  /** The fence under which it owned the task. 0: it never owned it. */
  fence: z.int().min(0),
  handoff_id: checkpointIdSchema.optional(),
  class: z.enum(FAILURE_CLASSES, { error: `one of ${FAILURE_CLASSES.join(", ")}` }),
  /** null: a signal ended the process, or it never ran. */
  exit_code: z.int().nullable(),
  signal: z.string().max(32).nullable(),
  started_at: time,
  ended_at: time,
  host: z.string().max(256),
  details: z.string().max(4_000).optional(),
  /** For a rate limit: the time from which the vendor serves again. */
  resets_at: time.optional(),
});

export type ExitReport = z.output<typeof exitReportSchema>;
