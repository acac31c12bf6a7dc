/**
 * Locks of files in a mission: commands, answers and the query. A lock is advice among the agents of a mission; the
 * fleet touches no file. One agent holds a file at a time, until it releases the file or its time is over.
 */
import { z } from "zod";
import { commandIdSchema, principalSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { MISSION_ANSWER_FIELDS } from "./mission-answer.ts";
import { redact } from "./redaction.ts";
import { redactionsSchema } from "./redaction-report.ts";

/** Why an agent holds a file no longer. */
export const LOCK_RELEASES = [
  "released",
  "expired",
  /** By the coordinator or an operator. */
  "forced",
  "sortie_ended",
  /** The agent failed, or another agent has its task. */
  "holder_lost",
  "mission_ended",
  /** The mission resumed, and the agent has no sortie in it. */
  "orphaned",
] as const;
export type LockRelease = (typeof LOCK_RELEASES)[number];

const PATH_FORM = `a relative path inside the workspace, at most ${LIMITS.mission_file_chars_max} characters`;

/** One spelling for each file: `./src//a.ts` and `src/a.ts` are the same. null: the path leaves the workspace. */
function normalized(path: string): string | null {
  const parts: string[] = [];
  if (/^([/\\]|[A-Za-z]:)/.test(path) || /\p{Cc}/u.test(path)) return null;
  for (const part of path.normalize("NFC").replaceAll("\\", "/").split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") parts.push(part);
    else if (parts.pop() === undefined) return null;
  }
  return parts.length === 0 ? null : parts.join("/");
}

export const lockPathSchema = z
  .string()
  .min(1, PATH_FORM)
  .max(LIMITS.mission_file_chars_max, PATH_FORM)
  .transform((path, context) => {
    const one = normalized(path);
    if (one !== null && one.length <= LIMITS.mission_file_chars_max) return one;
    context.addIssue({ code: "custom", message: PATH_FORM });
    return z.NEVER;
  });

const envelope = {
  command_id: commandIdSchema,
  fence: z.int().min(0).optional(),
  /** How many secrets each rule has removed from the command. */
  redactions: redactionsSchema.optional(),
};

const timeout = z.int().min(LIMITS.lock_timeout_ms_min).max(LIMITS.lock_timeout_ms_max);

/** `wait_ms`: how long the request stays in the queue of the file; 0: it is refused while another agent holds the file. */
const lockAcquireCommandSchema = z.looseObject({
  ...envelope,
  path: lockPathSchema,
  purpose: z
    .string()
    .max(LIMITS.lock_purpose_chars_max)
    .transform((text) => redact(text, "stored").text)
    .default(""),
  /** The sortie for which the file is locked; the lock ends with it. */
  sortie_id: tokenSchema.optional(),
  timeout_ms: timeout.default(LIMITS.lock_timeout_ms_default),
  wait_ms: z.int().min(0).max(LIMITS.lock_wait_ms_max).default(0),
});

/** Without `timeout_ms`: the time that was asked for. */
const lockRenewCommandSchema = z.looseObject({
  ...envelope,
  path: lockPathSchema,
  timeout_ms: timeout.optional(),
});

/** An agent that waits for the file waits no longer. `force`: releases the lock of another agent; for the coordinator and for people. */
const lockReleaseCommandSchema = z.looseObject({
  ...envelope,
  path: lockPathSchema,
  force: z.boolean().default(false),
});

export const LOCK_COMMAND_SCHEMAS = {
  lock_acquire: lockAcquireCommandSchema,
  lock_renew: lockRenewCommandSchema,
  lock_release: lockReleaseCommandSchema,
} as const;

export const LOCK_STATES = ["held", "waiting", "timed_out", "released"] as const;

export const lockAnswerSchema = z.looseObject({
  ...MISSION_ANSWER_FIELDS,
  path: z.string(),
  /** `timed_out`: the wait is over without the lock. */
  state: z.enum(LOCK_STATES),
  lock_id: z.string(),
  /** The agent that holds the file; null: none. */
  held_by: z.string().nullable(),
  /** Grows with every acquisition of the file. Only for `held`. */
  fence: z.int().exactOptional(),
  /** The end of the lock, or of the wait. */
  until: z.string().exactOptional(),
  /** The error checkpoint that a wait without success has written (US-302). */
  checkpoint_id: z.string().exactOptional(),
});

const waiterSchema = z.looseObject({
  lock_id: z.string(),
  agent_id: z.string(),
  sortie_id: z.string().nullable(),
  purpose: z.string(),
  since: z.string(),
  deadline: z.string(),
});

export const lockSchema = z.looseObject({
  path: z.string(),
  lock_id: z.string(),
  agent_id: z.string(),
  sortie_id: z.string().nullable(),
  purpose: z.string(),
  fence: z.int(),
  timeout_ms: z.int(),
  acquired_at: z.string(),
  expires_at: z.string(),
  /** Those that wait for the file, the longest first. */
  waiters: z.array(waiterSchema),
});

/** All locks of a mission that are held now, ordered by their paths. */
export const locksQuerySchema = z.looseObject({
  mission_id: tokenSchema,
  path: lockPathSchema.optional(),
  agent_id: principalSchema.optional(),
});

export const lockListSchema = z.looseObject({ locks: z.array(lockSchema) });

export type LockAcquireCommand = z.output<typeof lockAcquireCommandSchema>;
export type LockRenewCommand = z.output<typeof lockRenewCommandSchema>;
export type LockReleaseCommand = z.output<typeof lockReleaseCommandSchema>;
export type LockAnswer = z.output<typeof lockAnswerSchema>;
export type Lock = z.output<typeof lockSchema>;
export type LockList = z.output<typeof lockListSchema>;
