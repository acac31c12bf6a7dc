/**
 * CheckpointRepository: the operations of seed 000 §5.1 on any store, each one transaction. Errors are FleetErrors; an unavailable
 * store gives UNAVAILABLE. A transaction with an unknown result is retried, which its idempotency record makes harmless.
 */
import { newSalt, type RandomFill, saltsOf } from "../integrity/seal.ts";
import { requireFence } from "../lifecycle/ownership.ts";
import type {
  AcknowledgedAnswer,
  CommittedAnswer,
  HandoffAnswer,
  OwnershipAnswer,
  RecoveryAnswer,
  RemovedAnswer,
  RetentionAnswer,
} from "../protocol/answers.ts";
import type { Checkpoint } from "../protocol/checkpoint.ts";
import type { CheckpointPage, CorruptCheckpoint, SearchResult } from "../protocol/checkpoint-pages.ts";
import type {
  AcknowledgeCommand,
  CancelHandoffCommand,
  CreateCommand,
  FinalizeCommand,
  ForkCommand,
  HandoffCommand,
  ImportBeginCommand,
  ImportEndCommand,
  ImportRecordsCommand,
  ImportRemovedCommand,
  ImportVersionCommand,
  LinkCommand,
  RecoverCommand,
  RemoveCommand,
  RetainCommand,
  TakeCommand,
  UpdateCommand,
} from "../protocol/commands.ts";
import { FleetError } from "../protocol/errors.ts";
import type { Handoff } from "../protocol/handoff-record.ts";
import { LIMITS } from "../protocol/limits.ts";
import { DEFAULT_POLICIES, type Policies } from "../protocol/policy.ts";
import type { AuditPage, HandoffPage, IndexStatus, QueryParams, QueryResults } from "../protocol/queries.ts";
import type { PrunablePage } from "../protocol/retention-queries.ts";
import type { ScrubFindingPage, ScrubStatus } from "../protocol/scrub.ts";
import type { Task } from "../protocol/task.ts";
import type { Store, Tx } from "../store/store.ts";
import { AccessLogs } from "./access-log/access-logs.ts";
import { ArtifactRecords } from "./artifacts/artifacts.ts";
import { readAudit } from "./audit/audit.ts";
import { TenantActs } from "./audit/tenant-acts.ts";
import { actAudited, type TenantCaller } from "./audit/tenant-audit.ts";
import { AuditLogs } from "./audit-log/log-queries.ts";
import { createCheckpoint } from "./checkpoint/create.ts";
import { finalizeCheckpoint } from "./checkpoint/finalize.ts";
import { linkCheckpoints } from "./checkpoint/link.ts";
import { readTask } from "./checkpoint/lookup.ts";
import { updateCheckpoint } from "./checkpoint/update.ts";
import { Findings } from "./corruption/report-corrupt.ts";
import type { CheckpointCopies, Restored } from "./corruption/restore.ts";
import { type ReadForm, VerifiedReads } from "./corruption/verified-reads.ts";
import { EncryptionActs } from "./encryption/encryption-acts.ts";
import { Esignatures } from "./esign/esignatures.ts";
import { forkTask } from "./fork/fork.ts";
import { acknowledgeHandoff, cancelHandoff, initiateHandoff } from "./handoff/commands.ts";
import { findHandoff, listHandoffs } from "./handoff/lists.ts";
import { HandoffActions } from "./handoff-actions.ts";
import type { Format } from "./kv/format.ts";
import { tenantKeys } from "./kv/keyspace.ts";
import { asFleetError } from "./kv/store-errors.ts";
import { Transactions } from "./kv/transactions.ts";
import { Missions } from "./mission/missions.ts";
import { recoverTask } from "./recovery/commands.ts";
import { listRecoveries } from "./recovery/lists.ts";
import { type PreviewedPoint, RecoveryActions } from "./recovery-actions.ts";
import { removeCheckpoint, retainTask } from "./retention/commands.ts";
import { listPrunable } from "./retention/preview.ts";
import { Erasure } from "./retention/shred/erasure.ts";
import { listFindings } from "./scrub/findings.ts";
import { keepReportedDamage } from "./scrub/reported-damage.ts";
import type { FoundDamage } from "./scrub/scrub-reader.ts";
import { readScrubStatus, requestScrub } from "./scrub/state.ts";
import { readIndexStatus, requestRebuild, requireIndexed } from "./search/index-state.ts";
import { search } from "./search/search.ts";
import { Sessions } from "./session/sessions.ts";
import { SigningKeys } from "./signing/signing-keys.ts";
import { readEnvelopes } from "./signing/stored-signatures.ts";
import { AppliedCommands } from "./task/applied-commands.ts";
import { type AuditedRefusal, recordRefusal } from "./task/audited-refusals.ts";
import { type Caller, CommandRunner } from "./task/command-runner.ts";
import type { CommandContext } from "./task/command-transaction.ts";
import { releaseTask, takeTask } from "./task/ownership.ts";
import { listTasks } from "./task/task-page.ts";
import { redactedView } from "./task/task-view.ts";
import { beginImport, endImport, importVersion } from "./transfer/import.ts";
import { importRecords } from "./transfer/import-records.ts";
import { importRemoved } from "./transfer/import-removed.ts";

export interface RepositoryOptions {
  readonly store: Store;
  readonly format: Format;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** The service that acts, for the audit trail of its findings. */
  readonly finder: string;
  /** The policy of handoffs and recoveries. Default: {@link DEFAULT_POLICIES}. */
  readonly policies?: Policies;
  /** The random bytes of the salts. Default: the system's. */
  readonly randomFill?: RandomFill;
  /** Called for each newly found corrupt version, after its quarantine has been committed. */
  readonly onCorrupt?: (task: string, corrupt: CorruptCheckpoint) => void;
  /** Copies from which lost and corrupt versions are restored. Default: none, and such versions are quarantined. */
  readonly copies?: CheckpointCopies | undefined;
  /** Called for each version that was restored, after its transaction. */
  readonly onRestored?: (task: string, restored: Restored) => void;
  /** Called when a mission resumes from a checkpoint without a copy, although there are copies. */
  readonly onMissingCopy?: (task: string, checkpoint: string) => void;
}

export class CheckpointRepository {
  readonly #store: Store;
  readonly #options: RepositoryOptions;
  readonly #transactions: Transactions;
  readonly #commands: CommandRunner;
  readonly #findings: Findings;
  readonly handoffActions: HandoffActions;
  readonly recoveryActions: RecoveryActions;
  readonly tenantActs: TenantActs;
  readonly accessLogs: AccessLogs;
  readonly auditLogs: AuditLogs;
  readonly sessions: Sessions;
  readonly applied: AppliedCommands;
  readonly missions: Missions;
  readonly artifacts: ArtifactRecords;
  readonly signingKeys: SigningKeys;
  readonly encryption: EncryptionActs;
  readonly erasure: Erasure;
  readonly esignatures: Esignatures;
  readonly reads: VerifiedReads;

  constructor(options: RepositoryOptions) {
    const { store, now, finder, onCorrupt, copies, onRestored, policies = DEFAULT_POLICIES } = options;
    const { incarnation } = options.format;
    const transactions = new Transactions(store);
    const { onMissingCopy, randomFill } = options;
    const told = { onCorrupt, onRestored, onMissingCopy };
    const findings = new Findings({ transactions, incarnation, now, finder, copies, ...told });
    this.#store = store;
    this.#transactions = transactions;
    this.#findings = findings;
    this.reads = new VerifiedReads(transactions, findings);
    const isMirrored = copies !== undefined;
    const salts = randomFill === undefined ? newSalt : saltsOf(randomFill);
    const parts = {
      transactions,
      findings,
      incarnation,
      now,
      service: finder,
      policies,
      isMirrored,
      newSalt: salts,
    };
    this.handoffActions = new HandoffActions(parts);
    this.recoveryActions = new RecoveryActions(parts);
    this.tenantActs = new TenantActs(parts);
    this.accessLogs = new AccessLogs(parts);
    this.auditLogs = new AuditLogs(parts);
    this.sessions = new Sessions(parts);
    this.applied = new AppliedCommands(store, transactions, now);
    this.#options = options;
    this.#commands = new CommandRunner(parts);
    this.missions = new Missions(parts, this.#commands);
    this.erasure = new Erasure(parts, this.#commands);
    this.artifacts = new ArtifactRecords(transactions, now);
    this.esignatures = new Esignatures(parts, this.#commands);
    this.signingKeys = new SigningKeys(store, transactions, now);
    this.encryption = new EncryptionActs(transactions, now);
  }

  create(caller: Caller, command: CreateCommand): Promise<CommittedAnswer> {
    return this.#commands.run("create", caller, (tx, context) => createCheckpoint(tx, context, command));
  }

  update(caller: Caller, command: UpdateCommand): Promise<CommittedAnswer> {
    return this.#commands.run("update", caller, (tx, context) => updateCheckpoint(tx, context, command));
  }

  finalize(caller: Caller, command: FinalizeCommand): Promise<CommittedAnswer> {
    return this.#commands.run("finalize", caller, (tx, context) => finalizeCheckpoint(tx, context, command));
  }

  link(caller: Caller, command: LinkCommand): Promise<CommittedAnswer> {
    return this.#commands.run("link", caller, (tx, context) => linkCheckpoints(tx, context, command));
  }

  take(caller: Caller, command: TakeCommand): Promise<OwnershipAnswer> {
    return this.#commands.run("take", caller, (tx, context) => takeTask(tx, context, command));
  }

  release(caller: Caller): Promise<OwnershipAnswer> {
    return this.#commands.run("release", caller, releaseTask);
  }

  initiateHandoff(caller: Caller, command: HandoffCommand): Promise<HandoffAnswer> {
    return this.#commands.run("handoff", caller, (tx, context) => initiateHandoff(tx, context, command));
  }

  acknowledgeHandoff(caller: Caller, command: AcknowledgeCommand): Promise<AcknowledgedAnswer> {
    return this.#commands.run("acknowledge", caller, (tx, context) =>
      acknowledgeHandoff(tx, context, command),
    );
  }

  cancelHandoff(caller: Caller, command: CancelHandoffCommand): Promise<HandoffAnswer> {
    return this.#commands.run("cancel_handoff", caller, (tx, context) => cancelHandoff(tx, context, command));
  }

  /** Requests an attempt at once; the watchdogs make it. */
  recover(caller: Caller, command: RecoverCommand): Promise<RecoveryAnswer> {
    return this.#commands.run("recover", caller, (tx, context) => recoverTask(tx, context, command));
  }

  /** Begins a task with the state of a checkpoint of another one. Quarantines the corrupt ones that it passes over. */
  async fork(caller: Caller, command: ForkCommand): Promise<CommittedAnswer> {
    let passedOver: readonly CorruptCheckpoint[] = [];
    const verb = (tx: Tx, context: CommandContext) =>
      forkTask(tx, context, command, (found) => {
        passedOver = found;
      });
    try {
      return await this.#commands.run("fork", caller, verb, command.source_task_id);
    } finally {
      await this.quarantine(caller.actor.tenant, command.source_task_id, passedOver);
    }
  }

  /** Throws CONFLICT with the reason for a checkpoint that retention keeps. */
  remove(caller: Caller, command: RemoveCommand): Promise<RemovedAnswer> {
    return this.#commands.run("remove", caller, (tx, context) => removeCheckpoint(tx, context, command));
  }

  retain(caller: Caller, command: RetainCommand): Promise<RetentionAnswer> {
    return this.#commands.run("retain", caller, (tx, context) => retainTask(tx, context, command));
  }

  /** The checkpoints that a prune would remove now. */
  prunable(tenant: string, query: QueryParams<"prunable">): Promise<PrunablePage> {
    const { policies = DEFAULT_POLICIES, now } = this.#options;
    const context = { policies, nowMs: now() };
    return this.#transactions.read("prunable", (reader) => listPrunable(reader, tenant, query, context));
  }

  beginImport(caller: Caller, command: ImportBeginCommand): Promise<OwnershipAnswer> {
    return this.#commands.run("import_begin", caller, (tx, context) => beginImport(tx, context, command));
  }

  importVersion(caller: Caller, command: ImportVersionCommand): Promise<CommittedAnswer> {
    return this.#commands.run("import_version", caller, (tx, context) => importVersion(tx, context, command));
  }

  importRemoved(caller: Caller, command: ImportRemovedCommand): Promise<CommittedAnswer> {
    return this.#commands.run("import_removed", caller, (tx, context) => importRemoved(tx, context, command));
  }

  importRecords(caller: Caller, command: ImportRecordsCommand): Promise<OwnershipAnswer> {
    return this.#commands.run("import_records", caller, (tx, context) => importRecords(tx, context, command));
  }

  endImport(caller: Caller, command: ImportEndCommand): Promise<OwnershipAnswer> {
    return this.#commands.run("import_end", caller, (tx, context) => endImport(tx, context, command));
  }

  /** The handoff with an id, or of a task: the open one, else the latest. Throws NOT_FOUND. */
  handoff(tenant: string, query: QueryParams<"handoff">): Promise<Handoff> {
    return this.#transactions.read("handoff", (reader) => findHandoff(reader, tenant, query));
  }

  handoffs(tenant: string, query: QueryParams<"handoffs">): Promise<HandoffPage> {
    return this.#transactions.read("handoffs", (reader) => listHandoffs(reader, tenant, query));
  }

  /** Quarantines the corrupt versions that it finds. */
  recoveryPoint(tenant: string, query: QueryParams<"recovery_point">): Promise<PreviewedPoint> {
    return this.recoveryActions.previewPoint(tenant, query);
  }

  tasks(tenant: string, query: QueryParams<"tasks">): Promise<QueryResults["tasks"]> {
    return this.#transactions.read("tasks", (reader) => listTasks(reader, tenant, query));
  }

  recoveries(tenant: string, query: QueryParams<"recoveries">): Promise<QueryResults["recoveries"]> {
    return this.#transactions.read("recoveries", (reader) => listRecoveries(reader, tenant, query));
  }

  /** Like {@link VerifiedReads.find}, without what is beside the checkpoint there. */
  async get(tenant: string, id: string, version?: number, form: ReadForm = {}): Promise<Checkpoint> {
    return (await this.reads.find(tenant, id, version, { ...form, isAlone: true })).checkpoint;
  }

  latest(tenant: string, task: string): Promise<QueryResults["latest"]> {
    return this.reads.latest(tenant, task);
  }

  history(tenant: string, query: QueryParams<"history">): Promise<CheckpointPage> {
    return this.reads.history(tenant, query);
  }

  /** Throws NOT_FOUND for a task without any record. */
  async task(tenant: string, task: string): Promise<Task> {
    const head = await this.#transactions.read("task", (reader) => readTask(reader, tenant, task));
    if (head === null)
      throw new FleetError("NOT_FOUND", "there is no such task", { details: { task_id: task } });
    return redactedView(head);
  }

  /** One page of a task's audit trail with the task's head from the same snapshot. */
  audit(tenant: string, query: QueryParams<"audit">): Promise<AuditPage> {
    return this.#transactions.read("audit", async (reader) => {
      const task = await readTask(reader, tenant, query.task_id);
      if (task === null) {
        throw new FleetError("NOT_FOUND", "there is no such task", { details: { task_id: query.task_id } });
      }
      const keys = tenantKeys(tenant);
      const page = await readAudit(reader, keys, query.task_id, query.from_seq, query.limit);
      if (!query.signatures) return { task: redactedView(task), ...page };
      const part = { task: query.task_id, from: query.from_seq, count: page.entries.length };
      return { task: redactedView(task), ...page, signatures: await readEnvelopes(reader, keys, part) };
    });
  }

  /** Throws UNAVAILABLE, with the position of the index, when it does not reach `wait_for` in time. */
  async search(tenant: string, query: QueryParams<"search">): Promise<SearchResult> {
    if (query.wait_for !== undefined) {
      await requireIndexed(this.#store, query.wait_for, LIMITS.search_wait_ms_max).catch((error: unknown) => {
        throw asFleetError(error);
      });
    }
    const { corrupt, ...result } = await this.#transactions.read("search", (reader) =>
      search(reader, tenant, query),
    );
    for (const hit of corrupt) await this.quarantine(tenant, hit.task, [hit.corrupt]);
    return { ...result, corrupt: corrupt.map((hit) => hit.corrupt) };
  }

  indexStatus(): Promise<IndexStatus> {
    return this.#transactions.read("index_status", readIndexStatus);
  }

  /** Requests a rebuild of the index from the indexer; changes nothing while a rebuild is open. */
  async rebuildIndex(by: TenantCaller): Promise<IndexStatus> {
    await actAudited(this.#transactions, "index_rebuild", { by, nowMs: this.#options.now() }, requestRebuild);
    return this.indexStatus();
  }

  scrubStatus(): Promise<ScrubStatus> {
    return this.#transactions.read("scrub_status", (reader) => readScrubStatus(reader, this.#options.now()));
  }

  /** Requests a scrub that starts after this call. */
  async startScrub(by: TenantCaller): Promise<ScrubStatus> {
    await actAudited(this.#transactions, "scrub_start", { by, nowMs: this.#options.now() }, requestScrub);
    return this.scrubStatus();
  }

  /** Keeps the damage of a task's head as findings of the scrub; returns the new ones. */
  keepReportedDamage(tenant: string, task: string): Promise<readonly FoundDamage[]> {
    return keepReportedDamage(this.#transactions, { tenant, task }, this.#options.now());
  }

  scrubFindings(tenant: string, query: QueryParams<"scrub_findings">): Promise<ScrubFindingPage> {
    return this.#transactions.read("scrub_findings", (reader) => listFindings(reader, tenant, query));
  }

  /** Restores corrupt versions, or else marks, audits and announces them, except for those marked before. */
  async quarantine(tenant: string, task: string, found: readonly CorruptCheckpoint[]): Promise<void> {
    await this.#findings.keep(tenant, task, found);
  }

  /** Throws FENCED when a later owner has the task, even if earlier commands are still queued. */
  async requireNotSuperseded(
    { tenant, task }: { readonly tenant: string; readonly task: string },
    fence: number | undefined,
    deadlineMs: number,
  ): Promise<void> {
    const head = await this.#transactions.read(
      "superseded",
      (reader) => readTask(reader, tenant, task),
      deadlineMs,
    );
    if (head !== null && fence !== undefined && fence < head.fence) requireFence(head, fence, false);
  }

  /** Records a refusal in the audit trail; false when it is recorded already, or without such a task. */
  async recordRefusal(refusal: AuditedRefusal): Promise<boolean> {
    const { incarnation } = this.#options.format;
    const { value } = await this.#transactions.transact("refuse", (tx) =>
      recordRefusal(tx, refusal, { nowMs: this.#options.now(), incarnation, traceparent: undefined }),
    );
    return value;
  }
}
