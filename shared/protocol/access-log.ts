/**
 * The access log of a tenant: the reads of content, and the requests that were refused. It is a hash chain of its own, of blocks of entries. An
 * entry has ids, codes, times and numbers: no content, no words of a search, no credentials.
 */
import { z } from "zod";
import { principalSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";
import { placedEnvelopeSchema } from "./signing-keys.ts";

/** `strict`: content leaves after its entry is durable. `batched`: the entry may follow a moment later. `off`: nothing is written. */
export const ACCESS_LOG_MODES = ["off", "batched", "strict"] as const;
export type AccessLogMode = (typeof ACCESS_LOG_MODES)[number];

/**
 * The chain of blocks as the statements of signatures name it, where other chains name their task. No task has this name.
 */
export const ACCESS_CHAIN = "=access";

/** `failed`: the caller may read this, but there was no such thing, or it could not be answered. */
export const ACCESS_OUTCOMES = ["ok", "denied", "failed"] as const;

export const ADDRESS = /^[0-9A-Fa-f.:]{2,45}$/;

const actorSchema = z.looseObject({ id: z.string(), type: z.string() });

export const accessEntrySchema = z.looseObject({
  at: z.string(),
  /** The principal as the bus or the gateway has verified it; of a report, the program that reports. */
  actor: actorSchema,
  /** Such as `query.get`. */
  op: z.string(),
  outcome: z.enum(ACCESS_OUTCOMES),
  /** Why it was refused, or failed: a code. */
  reason: z.string().exactOptional(),
  task_id: z.string().exactOptional(),
  /** The tasks whose content a list has shown. */
  task_ids: z.array(z.string()).exactOptional(),
  checkpoint_id: z.string().exactOptional(),
  version: z.int().exactOptional(),
  handoff_id: z.string().exactOptional(),
  /** The hash of an artifact. */
  sha256: z.string().exactOptional(),
  agent_type: z.string().exactOptional(),
  /** The number of things that a list has shown. */
  items: z.int().exactOptional(),
  /** Equal requests from `at` to `until`. Absent: it was one. */
  count: z.int().exactOptional(),
  until: z.string().exactOptional(),
  trace_id: z.string().exactOptional(),
  /** The id of the HTTP request, and the address of its client, as the gateway has stated them. */
  request_id: z.string().exactOptional(),
  address: z.string().exactOptional(),
  /** What a caller without valid credentials has presented: the id of an API key, or the kind of token. */
  credential: z.string().exactOptional(),
});
export type AccessEntry = z.infer<typeof accessEntrySchema>;

/** Newest first. `task_id`: also entries of lists that have shown content of the task. */
const accessLogQuerySchema = z.looseObject({
  task_id: tokenSchema.optional(),
  actor: principalSchema.optional(),
  from: z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" }).optional(),
  to: z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" }).optional(),
  /** Only refused requests. */
  denied: z.boolean().default(false),
  limit: pageLimit(LIMITS.access_log_limit_max, LIMITS.access_log_limit_default),
  cursor: z.string().max(1_024).optional(),
});

const accessBlocksQuerySchema = z.looseObject({
  /** The first block of the page. Before the first one that is left: that one. */
  from_seq: z.int().min(1).default(1),
  limit: pageLimit(LIMITS.access_log_blocks_limit_max, LIMITS.access_log_blocks_limit_default),
});

const code = (pattern: RegExp) => z.string().regex(pattern, "a code of a refusal");

/** A refused request as the program that refused it reports it, or equal ones with their number. */
const denialSchema = z.looseObject({
  at: z.iso.datetime({ offset: true }),
  until: z.iso.datetime({ offset: true }).optional(),
  count: z.int().min(1).default(1),
  /** Such as `http.getCheckpoint` or `bus.publish`. */
  op: code(/^(?:http|bus)\.\w{1,64}$/),
  reason: code(/^[a-z_]{1,64}$/),
  task_id: tokenSchema.optional(),
  credential: code(/^[A-Za-z0-9 _=:.-]{1,100}$/).optional(),
  address: z.string().regex(ADDRESS, "an IP address").optional(),
});
export type Denial = z.input<typeof denialSchema>;

/** The caller is the one that was refused, or the program that has refused callers without valid credentials. */
const denialRecordQuerySchema = z.looseObject({
  denials: z.array(denialSchema).min(1).max(LIMITS.access_log_report_count_max),
});

const accessPageSchema = z.looseObject({
  /** Each with the block that has it. */
  entries: z.array(accessEntrySchema.extend({ block: z.int() })),
  /** What is in force for the tenant now. `days` null: entries are kept for good. */
  mode: z.enum(ACCESS_LOG_MODES),
  days: z.int().nullable(),
  /** Absent on the last page. An earlier page may be shorter than `limit`, or empty. */
  cursor: z.string().exactOptional(),
});
export type AccessPage = z.infer<typeof accessPageSchema>;

const chainEndSchema = z.looseObject({ seq: z.int(), hash: z.string() });

/** A process that writes to the log. `closed`: it has stopped, or had no entry for a while, and has lost none until `at`. */
export const ACCESS_SESSION_STATES = ["open", "closed"] as const;

/** Processes that have lost entries, or ended without a closed session, are named for so long. */
export const ACCESS_LOSSES_KEPT_DAYS = 7;

const accessSessionSchema = z.looseObject({
  session: z.string(),
  state: z.enum(ACCESS_SESSION_STATES),
  /** Of its newest block. */
  at: z.string(),
  seq: z.int(),
  /** The entries that it could not hold, as its blocks state. Absent: of an earlier version. */
  lost: z.int().exactOptional(),
});
export type AccessSession = z.infer<typeof accessSessionSchema>;

const accessBlockPageSchema = z.looseObject({
  /** The last block that retention has removed; a block after it states that. null: none was removed. */
  start: chainEndSchema.nullable(),
  /** The newest block. null: the log is empty. */
  head: chainEndSchema.nullable(),
  /** Each with its exact bytes, so that a caller can verify the chain itself. */
  entries: z.array(z.looseObject({ seq: z.int(), entry: z.string(), hash: z.string() })),
  signatures: z.array(placedEnvelopeSchema),
  /** The processes that have written, as far as they are known. An open one may run, or was killed after its newest block. */
  sessions: z.array(accessSessionSchema),
  more: z.boolean(),
});
export type AccessBlockPage = z.infer<typeof accessBlockPageSchema>;

export const ACCESS_LOG_QUERY_SCHEMAS = {
  access_log: accessLogQuerySchema,
  access_blocks: accessBlocksQuerySchema,
  denial_record: denialRecordQuerySchema,
} as const;

export const ACCESS_LOG_RESULT_SCHEMAS = {
  access_log: accessPageSchema,
  access_blocks: accessBlockPageSchema,
  denial_record: z.looseObject({ recorded: z.int() }),
} as const;

export type AccessLogQueryResults = {
  readonly [Op in keyof typeof ACCESS_LOG_RESULT_SCHEMAS]: z.infer<(typeof ACCESS_LOG_RESULT_SCHEMAS)[Op]>;
};
