/** Queries: the requests that only read. Each has one schema for its parameters and a type for its result. */

import { z } from "zod";
import { accessRecordQuerySchema } from "./access-grant.ts";
import { ACCESS_LOG_QUERY_SCHEMAS, type AccessLogQueryResults } from "./access-log.ts";
import { type AgentPage, agentsQuerySchema } from "./agents.ts";
import {
  type AcknowledgedAlerts,
  type AlertPage,
  type AlertState,
  alertAckQuerySchema,
  alertQuerySchema,
  alertsQuerySchema,
} from "./alert-queries.ts";
import { ARTIFACT_QUERY_SCHEMAS, type ArtifactQueryResults } from "./artifacts.ts";
import { AUDIT_LOG_QUERY_SCHEMAS, type AuditLogQueryResults } from "./audit-log.ts";
import { type Checkpoint, PHASES, phaseSchema, STATUSES, TRIGGER_REASONS } from "./checkpoint.ts";
import type { CheckpointPage, CorruptCheckpoint, LatestResult, SearchResult } from "./checkpoint-pages.ts";
import type { Diagnosis } from "./diagnosis.ts";
import type { EncryptionRotation } from "./encryption.ts";
import { ESIGN_QUERY_SCHEMAS, type EsignQueryResults, type SignaturesBeside } from "./esign.ts";
import { type EventsPage, eventsQuerySchema } from "./event-queries.ts";
import type { DiskStatus, StreamFinding } from "./fleet-health.ts";
import type { Handoff } from "./handoff-record.ts";
import { HANDOFF_STATES } from "./handoff-states.ts";
import { type HoldPage, holdsQuerySchema } from "./holds.ts";
import { checkpointIdSchema, principalSchema, tokenSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { MISSION_QUERY_SCHEMAS, type MissionQueryResults } from "./mission-queries.ts";
import { offerNextQuerySchema, offerSettleQuerySchema, type SettledOffer } from "./offer-queries.ts";
import type { QueryOp } from "./operations.ts";
import { pageLimit } from "./page-limit.ts";
import {
  type DeadLetterPage,
  type DroppedLetter,
  deadLetterQuerySchema,
  deadListQuerySchema,
  type QueueStatus,
  type RetriedLetter,
} from "./queue-queries.ts";
import {
  type RecoveryPage,
  type RecoveryPreview,
  recoveriesQuerySchema,
  recoveryPointQuerySchema,
} from "./recovery-queries.ts";
import { type PrunablePage, prunableQuerySchema } from "./retention-queries.ts";
import type { ScrubFindingPage, ScrubStatus } from "./scrub.ts";
import { type ShredPage, shredsQuerySchema } from "./shred.ts";
import { type ShredCertificate, shredCertificateQuerySchema } from "./shred-certificate.ts";
import {
  keyRevokeQuerySchema,
  keyRotateQuerySchema,
  type PlacedEnvelope,
  type RevokedKey,
  type RotatedKeys,
  type SigningKeyList,
} from "./signing-keys.ts";
import { type ListedTask, TASK_STATES, type Task } from "./task.ts";
import type { AuditRecord, TenantAuditPage } from "./tenant-audit.ts";
import { type TurnResult, turnEventQuerySchema } from "./turns.ts";

const cursor = z.string().max(1_024).optional();
const time = z.iso.datetime({ offset: true, error: "an ISO 8601 time with a zone" });

const range = { from: time.optional(), to: time.optional() };

export const getQuerySchema = z.looseObject({
  checkpoint_id: checkpointIdSchema,
  /** An earlier version. Absent: the current one. */
  version: z.int().min(1).optional(),
  /** As it was hashed: a version of an older schema is not migrated, so its hash can be recomputed. Without the signatures of people. */
  as_stored: z.boolean().default(false),
  /** With the verified signature of its commit as `compliance.signature`, which takes several times as long. */
  signature: z.boolean().default(false),
});

export const latestQuerySchema = z.looseObject({ task_id: tokenSchema });

export const historyQuerySchema = z.looseObject({
  task_id: tokenSchema,
  limit: pageLimit(LIMITS.history_limit_max, LIMITS.history_limit_default),
  order: z.enum(["newest", "oldest"]).default("newest"),
  cursor,
});

export const searchQuerySchema = z.looseObject({
  agent_id: principalSchema.optional(),
  agent_type: tokenSchema.optional(),
  task_id: tokenSchema.optional(),
  phase: phaseSchema.optional(),
  status: z.enum(STATUSES, { error: `one of ${STATUSES.join(", ")}` }).optional(),
  trigger: z.enum(TRIGGER_REASONS, { error: `one of ${TRIGGER_REASONS.join(", ")}` }).optional(),
  ...range,
  /** Words that must all appear in the checkpoint's text. */
  text: z.string().min(1).max(LIMITS.search_text_chars_max).optional(),
  limit: pageLimit(LIMITS.search_limit_max, LIMITS.search_limit_default),
  cursor,
  /** A commit position that the index must reach before the search. */
  wait_for: z
    .string()
    .regex(/^[0-9a-f]{20}$/, "a commit position: 20 hex digits")
    .optional(),
});

export const byAgentQuerySchema = z.looseObject({
  agent_id: principalSchema,
  ...range,
  limit: pageLimit(LIMITS.search_limit_max, LIMITS.search_limit_default),
  cursor,
});

export const taskQuerySchema = z.looseObject({ task_id: tokenSchema });

/** Ordered by task id. A task must match all filters. */
export const tasksQuerySchema = z.looseObject({
  /** Only this task, if it matches. */
  task_id: tokenSchema.optional(),
  state: z.enum(TASK_STATES, { error: `one of ${TASK_STATES.join(", ")}` }).optional(),
  /** The phase of the newest checkpoint. */
  phase: phaseSchema.optional(),
  /** The owner, or the author of the newest checkpoint. */
  agent_id: principalSchema.optional(),
  /** The type of the author of the newest checkpoint. */
  agent_type: tokenSchema.optional(),
  limit: pageLimit(LIMITS.tasks_limit_max, LIMITS.tasks_limit_default),
  cursor,
});

export const auditQuerySchema = z.looseObject({
  task_id: tokenSchema,
  limit: pageLimit(LIMITS.audit_limit_max, LIMITS.audit_limit_default),
  /** The first entry of the page, from 1. */
  from_seq: z.int().min(1).default(1),
  /** With the signatures of the entries. */
  signatures: z.boolean().optional(),
});

/** The audit chain of the tenant itself. */
export const tenantAuditQuerySchema = auditQuerySchema.omit({ task_id: true });

/** One handoff by its id, or the open one of a task, or else its latest. */
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
  limit: pageLimit(LIMITS.handoffs_limit_max, LIMITS.handoffs_limit_default),
  cursor,
});

/** The findings of the tenant, ordered by task. */
export const scrubFindingsQuerySchema = z.looseObject({
  limit: pageLimit(LIMITS.scrub_findings_limit_max, LIMITS.scrub_findings_limit_default),
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
  tasks: tasksQuerySchema,
  audit: auditQuerySchema,
  handoff: handoffQuerySchema,
  handoffs: handoffsQuerySchema,
  recovery_point: recoveryPointQuerySchema,
  recoveries: recoveriesQuerySchema,
  status: emptyQuerySchema,
  diagnose: emptyQuerySchema,
  index_rebuild: emptyQuerySchema,
  index_status: emptyQuerySchema,
  scrub_status: emptyQuerySchema,
  scrub_start: emptyQuerySchema,
  scrub_findings: scrubFindingsQuerySchema,
  agents: agentsQuerySchema,
  events: eventsQuerySchema,
  tenant_audit: tenantAuditQuerySchema,
  access_record: accessRecordQuerySchema,
  turn_event: turnEventQuerySchema,
  prunable: prunableQuerySchema,
  holds: holdsQuerySchema,
  shreds: shredsQuerySchema,
  shred_certificate: shredCertificateQuerySchema,
  signing_keys: emptyQuerySchema,
  key_rotate: keyRotateQuerySchema,
  key_revoke: keyRevokeQuerySchema,
  encryption_rotate: emptyQuerySchema,
  ...ESIGN_QUERY_SCHEMAS,
  ...MISSION_QUERY_SCHEMAS,
  ...ARTIFACT_QUERY_SCHEMAS,
  ...AUDIT_LOG_QUERY_SCHEMAS,
  ...ACCESS_LOG_QUERY_SCHEMAS,
  queue_status: emptyQuerySchema,
  dead_list: deadListQuerySchema,
  dead_retry: deadLetterQuerySchema,
  dead_drop: deadLetterQuerySchema,
  alerts: alertsQuerySchema,
  alert: alertQuerySchema,
  alert_ack: alertAckQuerySchema,
  offer_next: offerNextQuerySchema,
  offer_settle: offerSettleQuerySchema,
} as const satisfies Record<QueryOp, z.ZodType>;

export type QueryInput<Op extends QueryOp> = z.input<(typeof QUERY_SCHEMAS)[Op]>;
export type QueryParams<Op extends QueryOp> = z.output<(typeof QUERY_SCHEMAS)[Op]>;

export interface TaskPage {
  readonly tasks: readonly ListedTask[];
  /** Names of listed tasks whose heads are damaged. */
  readonly corrupt: readonly string[];
  /** Absent on the last page. An earlier page may be shorter than `limit`, or empty. */
  readonly cursor?: string;
}

export interface AuditPage {
  readonly task: Task;
  readonly entries: readonly AuditRecord[];
  readonly more: boolean;
  /** Absent unless they are asked for. */
  readonly signatures?: readonly PlacedEnvelope[];
}

export interface HandoffPage {
  readonly handoffs: readonly Handoff[];
  /** Ids of listed handoffs whose records cannot be read, or do not belong to their place. */
  readonly corrupt: readonly string[];
  /** Absent on the last page. An earlier page may be shorter than `limit`, or empty. */
  readonly cursor?: string;
}

export interface IndexStatus {
  readonly state: "ready" | "rebuilding";
  readonly indexed_through: string;
  /** Commits that are not in the index yet. */
  readonly behind: number;
  readonly indexed: number;
  readonly total: number;
}

export interface FleetStatus {
  readonly version: string;
  readonly store: {
    readonly engine: string;
    readonly ok: boolean;
    readonly detail: string;
    /** Whether its rows are encrypted, or are being encrypted. Absent from older fleets. */
    readonly encrypted?: boolean;
  };
  readonly bus: { readonly ok: boolean; readonly detail: string; readonly server_version: string };
  /** Absent from older fleets. */
  readonly findings?: readonly StreamFinding[];
  /** Absent from older fleets. Empty: the store is on other machines. */
  readonly disks?: readonly DiskStatus[];
  readonly index: IndexStatus;
  readonly outbox: { readonly depth: number; readonly oldest_ms: number };
  readonly counts: { readonly tasks: number; readonly checkpoints: number; readonly events: number };
  readonly uptime_ms: number;
}

export interface QueryResults
  extends MissionQueryResults,
    ArtifactQueryResults,
    AuditLogQueryResults,
    AccessLogQueryResults,
    EsignQueryResults {
  get: {
    readonly checkpoint: Checkpoint;
    readonly restored?: readonly CorruptCheckpoint[];
  } & SignaturesBeside;
  latest: LatestResult;
  history: CheckpointPage;
  by_agent: SearchResult;
  search: SearchResult;
  task: { task: Task };
  tasks: TaskPage;
  audit: AuditPage;
  handoff: { handoff: Handoff };
  handoffs: HandoffPage;
  recovery_point: RecoveryPreview;
  recoveries: RecoveryPage;
  status: FleetStatus;
  diagnose: Diagnosis;
  index_rebuild: IndexStatus;
  index_status: IndexStatus;
  scrub_status: ScrubStatus;
  scrub_start: ScrubStatus;
  scrub_findings: ScrubFindingPage;
  agents: AgentPage;
  events: EventsPage;
  tenant_audit: TenantAuditPage;
  /** The number of acts that were not recorded before. */
  access_record: { readonly recorded: number };
  turn_event: TurnResult;
  prunable: PrunablePage;
  holds: HoldPage;
  shreds: ShredPage;
  shred_certificate: ShredCertificate;
  signing_keys: SigningKeyList;
  /** The keys that will be replaced. */
  key_rotate: RotatedKeys;
  key_revoke: RevokedKey;
  encryption_rotate: EncryptionRotation;
  queue_status: QueueStatus;
  dead_list: DeadLetterPage;
  dead_retry: RetriedLetter;
  dead_drop: DroppedLetter;
  alerts: AlertPage;
  alert: AlertState;
  alert_ack: AcknowledgedAlerts;
  offer_settle: SettledOffer;
}

export { type AuditRecord, PHASES };
