/** `fleet.admin`: the operations of operators and their tools. Status, recoveries, alerts, dead letters, search index, scrub. */

import type { BusLink } from "../../bus/bus.ts";
import { isConfirmation } from "../../bus/publish/confirmation.ts";
import type { GrantAct } from "../../protocol/access-grant.ts";
import type { AgentPage } from "../../protocol/agents.ts";
import type { AcknowledgedAlerts, AlertPage, AlertState } from "../../protocol/alert-queries.ts";
import type { ReceivedAlert } from "../../protocol/alerts.ts";
import type { RecoveryAnswer } from "../../protocol/answers.ts";
import type { AuditAnchorPage } from "../../protocol/audit-anchors.ts";
import type { AuditLogState, AuditProof, ExportSeal } from "../../protocol/audit-log.ts";
import type {
  ImportBeginCommand,
  ImportEndCommand,
  ImportRecordsCommand,
  ImportRemovedCommand,
  ImportVersionCommand,
} from "../../protocol/commands.ts";
import type { EncryptionRotation } from "../../protocol/encryption.ts";
import { FleetError, invalid, isStoreFull } from "../../protocol/errors.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import type { MissionRecordPage } from "../../protocol/mission-queries.ts";
import type { AgentRequestOp } from "../../protocol/operations.ts";
import type { FleetStatus, IndexStatus, QueryInput, TaskPage } from "../../protocol/queries.ts";
import type {
  DeadLetterPage,
  DroppedLetter,
  QueueStatus,
  RetriedLetter,
} from "../../protocol/queue-queries.ts";
import type { RecoveryPage, RecoveryPreview } from "../../protocol/recovery-queries.ts";
import type { ScrubFindingPage, ScrubStatus } from "../../protocol/scrub.ts";
import type { SigningKeyList, SigningKeyRecord } from "../../protocol/signing-keys.ts";
import { SUBJECTS } from "../../protocol/subjects.ts";
import type { TenantAuditPage } from "../../protocol/tenant-audit.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { Stop } from "../../runtime/process/service.ts";
import { AccessLogAdmin } from "../access-log/access-log-admin.ts";
import { type Camel, toSnake } from "../case-convert.ts";
import { type DisplayedCheckpoint, withAnswered } from "../esign/display.ts";
import { EsignAdmin } from "../esign/esign-admin.ts";
import type { ClientConnection } from "../request/connection.ts";
import { KnownKeys } from "../request/known-keys.ts";
import type { CallOptions } from "../request/request.ts";
import { requestOfAgent } from "./agent-request.ts";
import { askForDiagnoses, type ServiceDiagnosis } from "./diagnosis.ts";
import { resultOf } from "./outcome.ts";
import { RetentionAdmin } from "./retention.ts";
import type { TaskParts } from "./task.ts";
import { SIGNED_PAGE, type TrailReport, TrailVerifier } from "./trail-verifier.ts";
import { warnOfCorrupt, warnOfRestored } from "./warnings.ts";

export interface AdminParts extends TaskParts {
  readonly connection: ClientConnection;
  readonly clock: Clock;
  readonly tenant: string;
  readonly agentId: string;
}

export type AlertsOptions = Camel<QueryInput<"alerts">>;

export type TasksOptions = Camel<QueryInput<"tasks">>;
export type RecoveriesOptions = Camel<QueryInput<"recoveries">>;

/** `before`: older than this checkpoint. `checkpointId`: this checkpoint, if it is sound. `toAgentType`: the offer's. */
export type RecoveryPointOptions = Omit<Camel<QueryInput<"recovery_point">>, "taskId">;

export interface RecoverOptions extends CallOptions {
  readonly commandId?: string | undefined;
  /** The checkpoint's task. It saves a query for it. */
  readonly taskId?: string | undefined;
  /** The next agent's type. Default: the type that wrote the checkpoint, unless the policy names another one for its next phase. */
  readonly toAgentType?: string | undefined;
  /** For the next agent and the audit trail. */
  readonly reason?: string | undefined;
  /** Restores the whole budget of attempts. */
  readonly reset?: boolean | undefined;
  /** Recover although the task's agent is alive. */
  readonly force?: boolean | undefined;
}

/** The task waits for its next agent, under the next fence. `checkpointId`: the requested one; null: the newest sound one. */
export type RecoveryResult = Omit<Camel<RecoveryAnswer>, "status">;

export class FleetAdmin {
  readonly #parts: AdminParts;
  readonly retention: RetentionAdmin;
  readonly esign: EsignAdmin;
  readonly accessLog: AccessLogAdmin;

  constructor(parts: AdminParts) {
    this.#parts = parts;
    this.retention = new RetentionAdmin(parts);
    this.esign = new EsignAdmin(parts);
    this.accessLog = new AccessLogAdmin(parts);
  }

  status({ deadlineMs, signal }: CallOptions = {}): Promise<FleetStatus> {
    return this.#parts.queries.send("status", { deadlineMs, signal });
  }

  /** Asks every instance of every service about itself, its store and its bus; in the order of the answers. */
  diagnose(options: CallOptions = {}): Promise<ServiceDiagnosis[]> {
    return askForDiagnoses(this.#parts, options);
  }

  /** The connection to the bus. Throws UNAVAILABLE if there is none. */
  get link(): BusLink {
    return this.#parts.connection.bus.link;
  }

  /** Agents that send heartbeats, then owners of tasks that do not; in pages. */
  agents(query: Camel<QueryInput<"agents">> & CallOptions = {}): Promise<AgentPage> {
    return this.#parts.queries.send("agents", query);
  }

  indexStatus({ deadlineMs, signal }: CallOptions = {}): Promise<IndexStatus> {
    return this.#parts.queries.send("index_status", { deadlineMs, signal });
  }

  /** Starts a rebuild of the search index from the store; {@link indexStatus} shows its progress. */
  rebuildIndex({ deadlineMs, signal }: CallOptions = {}): Promise<IndexStatus> {
    return this.#parts.queries.send("index_rebuild", { deadlineMs, signal });
  }

  queueStatus({ deadlineMs, signal }: CallOptions = {}): Promise<QueueStatus> {
    return this.#parts.queries.send("queue_status", { deadlineMs, signal });
  }

  /** Queued commands that could not be applied, oldest first. `fromSeq`: the `next_seq` of the page before. */
  deadLetters(query: Camel<QueryInput<"dead_list">> & CallOptions = {}): Promise<DeadLetterPage> {
    return this.#parts.queries.send("dead_list", query);
  }

  /** Puts a dead letter's command back into the queue, under its own id. Throws NOT_FOUND. */
  retryDeadLetter(seq: number, { deadlineMs, signal }: CallOptions = {}): Promise<RetriedLetter> {
    return this.#parts.queries.send("dead_retry", { seq, deadlineMs, signal });
  }

  /** Removes a dead letter for good. Throws NOT_FOUND. */
  dropDeadLetter(seq: number, { deadlineMs, signal }: CallOptions = {}): Promise<DroppedLetter> {
    return this.#parts.queries.send("dead_drop", { seq, deadlineMs, signal });
  }

  /** A task's newest sound checkpoint, with the electronic signatures of its versions; null if it has no checkpoint. Throws CORRUPT if none is sound: an operator must decide. */
  async findRecoveryPoint(
    taskId: string,
    options: RecoveryPointOptions & CallOptions = {},
  ): Promise<DisplayedCheckpoint | null> {
    const { checkpoint, reason, details, passed_over, ...beside } = await this.recoveryPoint(taskId, options);
    if (reason !== "chain_broken") return checkpoint && withAnswered(checkpoint, beside);
    throw new FleetError("CORRUPT", "the chain is broken; an operator must decide", {
      details: { task_id: taskId, reason: details, corrupt: passed_over },
    });
  }

  /** Like {@link findRecoveryPoint}, with the checkpoints that were passed over, the reason if there is none, and the task's owner. */
  async recoveryPoint(
    taskId: string,
    options: RecoveryPointOptions & CallOptions = {},
  ): Promise<RecoveryPreview> {
    const { queries, onWarning } = this.#parts;
    const point = await queries.send("recovery_point", { taskId, ...options });
    warnOfCorrupt(onWarning, taskId, point.passed_over);
    warnOfRestored(onWarning, point);
    return point;
  }

  /**
   * Recovers a task from a checkpoint; null: from the newest sound one of `taskId`. Resolves when the owner has lost the task; the
   * watchdogs then start the attempt. Throws CONFLICT for an ended task and, without `force`, while the task's agent is alive.
   */
  async executeRecovery(checkpointId: string | null, options: RecoverOptions = {}): Promise<RecoveryResult> {
    const { toAgentType, reason, reset, force, ...rest } = options;
    if (checkpointId === null && rest.taskId === undefined) throw invalid("taskId", "the task to recover");
    const { delivery, tasks } = this.#parts;
    const task = rest.taskId ?? (await tasks.find(checkpointId as string, rest));
    const named = checkpointId === null ? undefined : normalizeCheckpointId(checkpointId);
    const body = toSnake({ checkpointId: named, toAgentType, reason, reset, force });
    // Not queued: later it might strike another agent than the caller meant.
    return resultOf(await delivery.deliverNow("recover", task, body, rest));
  }

  /**
   * Begins to import a task of another fleet or tenant. Until {@link endImport} it accepts nothing but its versions. Throws CONFLICT if
   * the task exists; its `origin` says whether an import was interrupted, and after how many versions.
   */
  async beginImport(
    taskId: string,
    origin: ImportBeginCommand["origin"],
    options: CallOptions = {},
  ): Promise<void> {
    await this.#parts.delivery.deliverNow("import_begin", taskId, { origin }, options);
  }

  /** The next version of the import, without its hash; all versions of one checkpoint before the next checkpoint. */
  async importVersion(
    taskId: string,
    version: Pick<ImportVersionCommand, "index" | "hash" | "checkpoint">,
    options: CallOptions = {},
  ): Promise<void> {
    await this.#parts.delivery.deliverNow("import_version", taskId, version, options);
  }

  /** In place of the versions of a checkpoint that retention removed in the origin. `index` is counted with the versions. */
  async importRemoved(
    taskId: string,
    step: Pick<ImportRemovedCommand, "index" | "removed">,
    options: CallOptions = {},
  ): Promise<void> {
    await this.#parts.delivery.deliverNow("import_removed", taskId, step, options);
  }

  /** The next records of its mission, after the last version. */
  async importRecords(
    taskId: string,
    part: Pick<ImportRecordsCommand, "index" | "records">,
    options: CallOptions = {},
  ): Promise<void> {
    await this.#parts.delivery.deliverNow("import_records", taskId, part, options);
  }

  async endImport(
    taskId: string,
    end: Pick<ImportEndCommand, "state" | "last_successful_id">,
    options: CallOptions = {},
  ): Promise<void> {
    await this.#parts.delivery.deliverNow("import_end", taskId, end, options);
  }

  /** The records of a mission as they are on disk, in pages, each with the head of its task. */
  missionRecords(query: Camel<QueryInput<"mission_records">> & CallOptions): Promise<MissionRecordPage> {
    return this.#parts.queries.send("mission_records", query);
  }

  /** Ordered by id, in pages. */
  tasks(query: TasksOptions & CallOptions = {}): Promise<TaskPage> {
    return this.#parts.queries.send("tasks", query);
  }

  /** Tasks in recovery, ordered by id, in pages. */
  recoveries(query: RecoveriesOptions & CallOptions = {}): Promise<RecoveryPage> {
    return this.#parts.queries.send("recoveries", query);
  }

  /** Newest first, in pages; `acknowledged: false, resolved: false` for the open ones. */
  listAlerts(query: AlertsOptions & CallOptions = {}): Promise<AlertPage> {
    return this.#parts.queries.send("alerts", query);
  }

  /** The alert with an id; null if there is none, or if it is older than alerts are kept. */
  alert(alertId: string, { deadlineMs, signal }: CallOptions = {}): Promise<AlertState | null> {
    return this.#parts.queries.find("alert", { alertId, deadlineMs, signal });
  }

  /**
   * Acknowledges alerts in the name of this client's agent. The answer names the first to acknowledge, who remains recorded. Throws
   * NOT_FOUND if one does not exist; then none is acknowledged.
   */
  acknowledgeAlert(
    alertId: string | readonly string[],
    { note, deadlineMs, signal }: CallOptions & { readonly note?: string | undefined } = {},
  ): Promise<AcknowledgedAlerts> {
    const { queries } = this.#parts;
    const alertIds = typeof alertId === "string" ? [alertId] : [...alertId];
    return queries.send("alert_ack", { alertIds, note, deadlineMs, signal });
  }

  /** Handles alerts of this tenant from now on, as they are published. */
  async onAlert(
    handler: (alert: ReceivedAlert) => void,
    options: { taskId?: string | undefined; severity?: string | undefined } = {},
  ): Promise<Stop> {
    const { connection, tenant } = this.#parts;
    const { taskId: task, severity } = options;
    return connection.bus.subscribe(SUBJECTS.alertsOf({ tenant, severity, task }), (message) => {
      if (isConfirmation(message)) return;
      handler(JSON.parse(new TextDecoder().decode(message.body)) as ReceivedAlert);
    });
  }

  /** When everything stored was last verified, with the result, and the progress of the current pass. */
  scrubStatus({ deadlineMs, signal }: CallOptions = {}): Promise<ScrubStatus> {
    return this.#parts.queries.send("scrub_status", { deadlineMs, signal });
  }

  /** Requests a full pass that begins from now on; its number is `requested_pass`. A repeated request is one request. */
  startScrub({ deadlineMs, signal }: CallOptions = {}): Promise<ScrubStatus> {
    return this.#parts.queries.send("scrub_start", { deadlineMs, signal });
  }

  /** The audit chain of this tenant's operators: alerts, scrubs, index rebuilds, dead letters, credentials, policies; in pages. */
  tenantAudit(query: Camel<QueryInput<"tenant_audit">> & CallOptions = {}): Promise<TenantAuditPage> {
    return this.#parts.queries.send("tenant_audit", query);
  }

  /** Recomputes that whole chain in this process, and verifies its signatures; the server is trusted for the list of keys only. */
  async verifyTenantAudit(options: CallOptions = {}): Promise<TrailReport> {
    const { tenant } = this.#parts;
    const keys = new KnownKeys(() => this.signingKeys(options));
    const verifier = new TrailVerifier({ tenant, task: null }, keys);
    return verifier.verify((fromSeq) => this.tenantAudit({ ...options, ...SIGNED_PAGE, fromSeq }));
  }

  /** The newest signed checkpoint of the tenant's audit log; with `sinceSize` the proof that it continues a kept one. */
  auditLog(query: Camel<QueryInput<"audit_log">> & CallOptions = {}): Promise<AuditLogState> {
    return this.#parts.queries.send("audit_log", query);
  }

  /** The receipt of an audit entry, which third parties verify without the fleet. Throws UNAVAILABLE until it is in the log. */
  auditProof(query: Camel<QueryInput<"audit_proof">> & CallOptions): Promise<AuditProof> {
    return this.#parts.queries.send("audit_proof", query);
  }

  /** The same for an entry of {@link tenantAudit}. */
  tenantAuditProof(query: Camel<QueryInput<"tenant_audit_proof">> & CallOptions = {}): Promise<AuditProof> {
    return this.#parts.queries.send("tenant_audit_proof", query);
  }

  /** The anchors of the audit log at places outside the store, the newest first, in pages of each target. */
  auditAnchors(query: Camel<QueryInput<"audit_anchors">> & CallOptions = {}): Promise<AuditAnchorPage> {
    return this.#parts.queries.send("audit_anchors", query);
  }

  /**
   * Records in the chain of the tenant that an export begins, or that a bundle of evidence leaves the fleet. Returns that entry, which seals the bundle.
   * Throws UNAVAILABLE at once while the disk of the store is full: only an operator can make room.
   */
  recordExport(query: Camel<QueryInput<"export_record">> & CallOptions): Promise<ExportSeal> {
    return this.#parts.queries.send("export_record", query, isStoreFull);
  }

  /** The keys with which the fleet signs and has signed its commits, and whether all its entries must be signed. */
  signingKeys({ deadlineMs, signal }: CallOptions = {}): Promise<SigningKeyList> {
    return this.#parts.queries.send("signing_keys", { deadlineMs, signal });
  }

  /** Requests the next key from the holder of a key, or of all active keys. Returns those that will be replaced, within seconds. */
  async rotateKeys(
    query: Camel<QueryInput<"key_rotate">> & CallOptions = {},
  ): Promise<readonly SigningKeyRecord[]> {
    return (await this.#parts.queries.send("key_rotate", query)).keys;
  }

  /** Requests new bucket keys of encryption at rest, by which a watchdog wraps all data keys. Throws CONFLICT if the store is not encrypted. */
  rotateEncryption(options: CallOptions = {}): Promise<EncryptionRotation> {
    return this.#parts.queries.send("encryption_rotate", options);
  }

  /** Revokes a key, after its holder has gone over to the next one. Signatures since `since` are rejected by verifications. */
  async revokeKey(query: Camel<QueryInput<"key_revoke">> & CallOptions): Promise<SigningKeyRecord> {
    return (await this.#parts.queries.send("key_revoke", query)).key;
  }

  /** Records in that chain what was done with credentials. Acts that it has are not repeated. Returns the number of new ones. */
  async recordAccess(acts: readonly GrantAct[], { deadlineMs, signal }: CallOptions = {}): Promise<number> {
    const { recorded } = await this.#parts.queries.send("access_record", {
      acts: [...acts],
      deadlineMs,
      signal,
    });
    return recorded;
  }

  /**
   * Has the runner of an agent stop it and start it again as one that continues its own session; five seconds later the agent is asked
   * for a checkpoint. For agents in tmux windows. Resolves when the agent runs again.
   */
  restartAgent(agentId: string, options: CallOptions = {}): Promise<void> {
    return this.#requestOf(agentId, "restart", options);
  }

  /** Has the runner of an agent write the checkpoint message to its window. Resolves when the agent's program has taken it. */
  askForCheckpoint(agentId: string, options: CallOptions = {}): Promise<void> {
    return this.#requestOf(agentId, "inject", options);
  }

  #requestOf(agentId: string, op: AgentRequestOp, { deadlineMs }: CallOptions): Promise<void> {
    const { connection, tenant, agentId: caller } = this.#parts;
    return requestOfAgent(connection, { tenant, caller, agentId, op, deadlineMs });
  }

  /** The scrub's findings in this tenant that still hold, by task; in pages. */
  scrubFindings(query: Camel<QueryInput<"scrub_findings">> & CallOptions = {}): Promise<ScrubFindingPage> {
    return this.#parts.queries.send("scrub_findings", query);
  }
}
