/** Queries: the requests that change nothing. Each has one schema for what it takes; what it returns is typed beside it. */
import { z } from "zod";
import { type AgentPage, agentsQuerySchema } from "./agents.ts";
import {
  type AcknowledgedAlerts,
  type AlertPage,
  type AlertState,
  alertAckQuerySchema,
  alertQuerySchema,
  alertsQuerySchema,
} from "./alert-queries.ts";
import { type Checkpoint, PHASES, phaseSchema, STATUSES, TRIGGER_REASONS } from "./checkpoint.ts";
import type { ErrorBody } from "./errors.ts";
import type { Handoff } from "./handoff-record.ts";
import { HANDOFF_STATES } from "./handoff-states.ts";
import { checkpointIdSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { type PointFailure, RECOVERING_STATES } from "./recovery-states.ts";
import type { ScrubFindingPage, ScrubStatus } from "./scrub.ts";
import type { QueryOp } from "./subjects.ts";
import type { Task } from "./task.ts";

const cursor = z.string().max(1_024).optional();
const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });

function limit(most: number, usual: number) {
  return z.int().min(1, `a number from 1 to ${most}`).max(most, `a number from 1 to ${most}`).default(usual);
}

const range = { from: time.optional(), to: time.optional() };

export const getQuerySchema = z.looseObject({
  checkpoint_id: checkpointIdSchema,
  /** An earlier version; absent: the current one. */
  version: z.int().min(1).optional(),
});

export const latestQuerySchema = z.looseObject({ task_id: tokenSchema });

export const historyQuerySchema = z.looseObject({
  task_id: tokenSchema,
  limit: limit(LIMITS.history_limit_max, LIMITS.history_limit_default),
  order: z.enum(["newest", "oldest"]).default("newest"),
  cursor,
});

export const searchQuerySchema = z.looseObject({
  agent_id: tokenSchema.optional(),
  agent_type: tokenSchema.optional(),
  task_id: tokenSchema.optional(),
  phase: phaseSchema.optional(),
  status: z.enum(STATUSES, { error: `one of ${STATUSES.join(", ")}` }).optional(),
  trigger: z.enum(TRIGGER_REASONS, { error: `one of ${TRIGGER_REASONS.join(", ")}` }).optional(),
  ...range,
  /** Words that must all appear in the checkpoint's text. */
  text: z.string().min(1).max(LIMITS.search_text_chars_max).optional(),
  limit: limit(LIMITS.search_limit_max, LIMITS.search_limit_default),
  cursor,
  /** A commit position: wait until the index has reached it. */
  wait_for: z
    .string()
    .regex(/^[0-9a-f]{20}$/, "a commit position: 20 hex digits")
    .optional(),
});

export const byAgentQuerySchema = z.looseObject({
  agent_id: tokenSchema,
  ...range,
  limit: limit(LIMITS.search_limit_max, LIMITS.search_limit_default),
  cursor,
});

export const taskQuerySchema = z.looseObject({ task_id: tokenSchema });

export const auditQuerySchema = z.looseObject({
  task_id: tokenSchema,
  limit: limit(LIMITS.audit_limit_max, LIMITS.audit_limit_default),
  /** The first entry wanted, from 1. */
  from_seq: z.int().min(1).default(1),
});

/** One handoff by its id, or a task's: the open one, else its latest. */
export const handoffQuerySchema = z
  .looseObject({ handoff_id: checkpointIdSchema.optional(), task_id: tokenSchema.optional() })
  .refine(({ handoff_id, task_id }) => (handoff_id === undefined) !== (task_id === undefined), {
    path: ["handoff_id"],
    error: "either handoff_id or task_id",
  });

/** Newest first. */
export const handoffsQuerySchema = z.looseObject({
  state: z.enum(HANDOFF_STATES, { error: `one of ${HANDOFF_STATES.join(", ")}` }).optional(),
  task_id: tokenSchema.optional(),
  limit: limit(LIMITS.handoffs_limit_max, LIMITS.handoffs_limit_default),
  cursor,
});

/**
 * From where work on a task goes on after a failure: the newest checkpoint that verifies together with all behind it. `before`: the newest
 * such one that is older than this, where there is one; `checkpoint_id`: this one, if it is one. `to_agent_type`: to whom it should be offered.
 */
export const recoveryPointQuerySchema = z
  .looseObject({
    task_id: tokenSchema,
    before: checkpointIdSchema.optional(),
    checkpoint_id: checkpointIdSchema.optional(),
    to_agent_type: tokenSchema.optional(),
  })
  .refine(({ before, checkpoint_id }) => before === undefined || checkpoint_id === undefined, {
    path: ["before"],
    error: "either before or checkpoint_id",
  });

/** In the order of the tasks' names. */
export const recoveriesQuerySchema = z.looseObject({
  state: z.enum(RECOVERING_STATES, { error: `one of ${RECOVERING_STATES.join(", ")}` }).optional(),
  /** Of the agent that failed, or else of the one that wrote last. */
  agent_type: tokenSchema.optional(),
  limit: limit(LIMITS.recoveries_limit_max, LIMITS.recoveries_limit_default),
  cursor,
});

export const deadListQuerySchema = z.looseObject({
  limit: limit(LIMITS.dead_limit_max, LIMITS.dead_limit_default),
  /** The first letter wanted, by its place in the stream of dead letters. */
  from_seq: z.int().min(1).default(1),
});

export const deadLetterQuerySchema = z.looseObject({ seq: z.int().min(1) });

/** Of the tenant, by task. */
export const scrubFindingsQuerySchema = z.looseObject({
  limit: limit(LIMITS.scrub_findings_limit_max, LIMITS.scrub_findings_limit_default),
  cursor,
});

export const emptyQuerySchema = z.looseObject({});

export const QUERY_SCHEMAS = {
  get: getQuerySchema,
  latest: latestQuerySchema,
  history: historyQuerySchema,
  by_agent: byAgentQuerySchema,
  search: searchQuerySchema,
  task: taskQuerySchema,
  audit: auditQuerySchema,
  handoff: handoffQuerySchema,
  handoffs: handoffsQuerySchema,
  recovery_point: recoveryPointQuerySchema,
  recoveries: recoveriesQuerySchema,
  status: emptyQuerySchema,
  index_rebuild: emptyQuerySchema,
  index_status: emptyQuerySchema,
  scrub_status: emptyQuerySchema,
  scrub_start: emptyQuerySchema,
  scrub_findings: scrubFindingsQuerySchema,
  agents: agentsQuerySchema,
  queue_status: emptyQuerySchema,
  dead_list: deadListQuerySchema,
  dead_retry: deadLetterQuerySchema,
  dead_drop: deadLetterQuerySchema,
  alerts: alertsQuerySchema,
  alert: alertQuerySchema,
  alert_ack: alertAckQuerySchema,
} as const satisfies Record<QueryOp, z.ZodType>;

export type QueryInput<Op extends QueryOp> = z.input<(typeof QUERY_SCHEMAS)[Op]>;
export type QueryParams<Op extends QueryOp> = z.output<(typeof QUERY_SCHEMAS)[Op]>;

/** A checkpoint that exists but did not verify; it is named, never returned. */
export interface CorruptCheckpoint {
  /** null: the record that named it is lost. */
  readonly checkpoint_id: string | null;
  readonly version: number | null;
  readonly reason: string;
}

export interface LatestResult {
  readonly checkpoint: Checkpoint | null;
  /** Newer checkpoints that were passed over because they are corrupt; empty when the newest is sound. */
  readonly passed_over: readonly CorruptCheckpoint[];
}

export interface CheckpointPage {
  readonly checkpoints: readonly Checkpoint[];
  /** Corrupt checkpoints that would have stood on this page. */
  readonly corrupt: readonly CorruptCheckpoint[];
  /** Absent on the last page. */
  readonly cursor?: string;
}

export interface SearchResult extends CheckpointPage {
  /** Commit position up to which the index is complete. */
  readonly indexed_through: string;
  /** True while the index is being rebuilt: what was found is right, something may be missing. */
  readonly rebuilding: boolean;
}

/** One audit entry with the bytes that were hashed, so that a caller can verify the chain itself. */
export interface AuditRecord {
  readonly seq: number;
  /** The canonical JSON that was hashed. */
  readonly entry: string;
  readonly hash: string;
}

export interface AuditPage {
  readonly task: Task;
  readonly entries: readonly AuditRecord[];
  readonly more: boolean;
}

export interface HandoffPage {
  readonly handoffs: readonly Handoff[];
  /** Absent on the last page; a page may be shorter than asked for, or empty, and not be the last. */
  readonly cursor?: string;
}

/** Where a recovery would find now to go on from. */
export interface FoundPoint {
  readonly checkpoint: Checkpoint | null;
  /** Why there is none; null: there is one. */
  readonly reason: PointFailure | null;
  readonly details: string | null;
  /** Those on the way that do not verify; they are quarantined. */
  readonly passed_over: readonly CorruptCheckpoint[];
  /** Who would lose the task; null: nobody owns it. */
  readonly owner: {
    readonly agent_id: string;
    readonly fence: number;
    /** Until when it counts as alive by its heartbeats and writes; before that a recovery needs `force`. null: not any more. */
    readonly alive_until: string | null;
  } | null;
}

/** What a recovery would do now. */
export interface RecoveryPreview extends FoundPoint {
  /** null: there is nothing to go on from. */
  readonly offer: {
    readonly agent_type: string;
    /** Whether there may be agents of that type; else the task is blocked. */
    readonly is_known: boolean;
    /** How often it is made, and how long each one stands, before the task is blocked. */
    readonly max_attempts: number;
    readonly deadline_ms: number;
  } | null;
}

export interface RecoveryPage {
  /** Tasks whose recovery is not `idle`. */
  readonly tasks: readonly Task[];
  /** Absent on the last page; a page may be shorter than asked for, or empty, and not be the last. */
  readonly cursor?: string;
}

export interface IndexStatus {
  readonly state: "ready" | "rebuilding";
  readonly indexed_through: string;
  /** Commits that the index has still to follow. */
  readonly behind: number;
  readonly indexed: number;
  readonly total: number;
}

export interface FleetStatus {
  readonly version: string;
  readonly store: { readonly engine: string; readonly ok: boolean; readonly detail: string };
  readonly bus: { readonly ok: boolean; readonly detail: string; readonly server_version: string };
  readonly index: IndexStatus;
  readonly outbox: { readonly depth: number; readonly oldest_ms: number };
  readonly counts: { readonly tasks: number; readonly checkpoints: number; readonly events: number };
  readonly uptime_ms: number;
}

/** Over all tenants. */
export interface QueueStatus {
  /** Commands that wait to be applied. */
  readonly depth: number;
  /** Since the oldest of them was queued; null when none waits. */
  readonly oldest_age_ms: number | null;
  readonly bytes: number;
  /** At this size the queue refuses commands. */
  readonly bytes_max: number;
  /** Commands that have left the queue since it was made: applied, or to the dead letters. */
  readonly left_total: number;
  /** Letters that a person has to look at. */
  readonly dead: number;
  /** Whether the store answers, as the reader sees it; while it is away the queue only grows. */
  readonly store: "ok" | "away";
}

/** A command that could not be applied, with what was wrong. */
export interface DeadLetter {
  /** Its place among the dead letters, and its name for `dead_retry` and `dead_drop`. */
  readonly seq: number;
  /** The stream that it came from. */
  readonly stream: string;
  /** The error's code in small letters. */
  readonly reason: string;
  readonly error: ErrorBody;
  /** Of its subject; null where that token is none. */
  readonly tenant: string | null;
  readonly agent_id: string | null;
  readonly task_id: string | null;
  readonly op: string | null;
  /** null: it names none that can be read. */
  readonly command_id: string | null;
  readonly queued_at: string;
  readonly dead_at: string;
  /** Of the command's body. */
  readonly size_bytes: number;
  /** When a copy of the command was applied all the same; null: none was, more than two days ago, or the store is away. */
  readonly applied_at: string | null;
}

export interface DeadLetterPage {
  readonly letters: readonly DeadLetter[];
  /** Where the next page begins; null on the last one. */
  readonly next_seq: number | null;
}

export interface RetriedLetter {
  readonly seq: number;
  readonly command_id: string | null;
  /** Its new place in the queue's stream. */
  readonly position: number;
  /** When a copy of the command was applied before; then putting it back has no effect. */
  readonly applied_at: string | null;
}

export interface DroppedLetter {
  readonly seq: number;
  readonly command_id: string | null;
}

export interface QueryResults {
  get: { checkpoint: Checkpoint };
  latest: LatestResult;
  history: CheckpointPage;
  by_agent: SearchResult;
  search: SearchResult;
  task: { task: Task };
  audit: AuditPage;
  handoff: { handoff: Handoff };
  handoffs: HandoffPage;
  recovery_point: RecoveryPreview;
  recoveries: RecoveryPage;
  status: FleetStatus;
  index_rebuild: IndexStatus;
  index_status: IndexStatus;
  scrub_status: ScrubStatus;
  scrub_start: ScrubStatus;
  scrub_findings: ScrubFindingPage;
  agents: AgentPage;
  queue_status: QueueStatus;
  dead_list: DeadLetterPage;
  dead_retry: RetriedLetter;
  dead_drop: DroppedLetter;
  alerts: AlertPage;
  alert: AlertState;
  alert_ack: AcknowledgedAlerts;
}

export { PHASES };
