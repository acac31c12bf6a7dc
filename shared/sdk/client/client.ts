/**
 * The client: the operations of an agent or an orchestrator, typed. Checkpoints are data and keep their snake_case names; functions and
 * options are camelCase. Operations on one task are those of its handle; here they stand under the names of seed 000 §5.1.
 */
import { hash } from "node:crypto";
import { isConfirmation } from "../../bus/publish/confirmation.ts";
import { encodeBody } from "../../integrity/wire.ts";
import type { FinalStatus } from "../../protocol/checkpoint.ts";
import type { CheckpointPage, LatestResult, SearchResult } from "../../protocol/checkpoint-pages.ts";
import { invalid } from "../../protocol/errors.ts";
import type { FleetEvent } from "../../protocol/events.ts";
import { type ExitReport, exitReportSchema } from "../../protocol/exit-report.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { AuditPage, HandoffPage, QueryInput } from "../../protocol/queries.ts";
import { CONTENT_TYPES, SUBJECTS } from "../../protocol/subjects.ts";
import type { Task } from "../../protocol/task.ts";
import type { TurnResult } from "../../protocol/turns.ts";
import { validate } from "../../protocol/validation.ts";
import { createLogger, type Logger } from "../../runtime/observability/log.ts";
import type { Stop } from "../../runtime/process/service.ts";
import { Artifacts } from "../artifacts/artifacts.ts";
import { type Camel, toSnake } from "../case-convert.ts";
import { CommandDelivery, type CommandOptions, type DeliveryParts } from "../delivery/command-delivery.ts";
import { type DisplayedCheckpoint, withAnswered } from "../esign/display.ts";
import { HeartbeatSender, type HeartbeatState } from "../heartbeat.ts";
import { MissionHandle } from "../mission/mission.ts";
import { MissionDirectory } from "../mission/mission-directory.ts";
import { type OfferHandler, type OfferOptions, takeOffers } from "../offers.ts";
import { KnownKeys } from "../request/known-keys.ts";
import { QuerySender } from "../request/query-sender.ts";
import type { CallOptions } from "../request/request.ts";
import type { PendingCommands, SpoolCounts } from "../spool/spool.ts";
import { type AdminParts, FleetAdmin } from "./admin.ts";
import { onCheckpointRequest, type RequestedCheckpoint, requestCheckpoint } from "./checkpoint-request.ts";
import { CheckpointTasks } from "./checkpoint-tasks.ts";
import { offerReference } from "./offer-reference.ts";
import type {
  AcknowledgeOptions,
  AgentRange,
  AuditOptions,
  CancelHandoffOptions,
  ChangeOptions,
  CreateCheckpointParams,
  FinalizeOptions,
  GetOptions,
  HandoffsOptions,
  HistoryOptions,
  InitiateHandoffOptions,
  OfferReference,
  SearchOptions,
  TakeOptions,
} from "./options.ts";
import {
  type CheckpointOutcome,
  type HandoffChange,
  type HandoffOutcome,
  resultOf,
  rethrowUnread,
  type WrittenCheckpoint,
} from "./outcome.ts";
import { type AcceptedHandoff, TaskHandle } from "./task.ts";
import { SIGNED_PAGE, type TrailReport, TrailVerifier } from "./trail-verifier.ts";
import { type OnWarning, warnOfRestored } from "./warnings.ts";

export interface ClientParts extends DeliveryParts {
  /** Default: silent. */
  readonly log?: Logger;
  readonly onWarning: OnWarning;
}

/** How long `close` sends from the spool: a process with a single command, such as a hook, also sends part of it. */
const CLOSE_MS = 250;
const NOTHING_SENT: SpoolCounts = { sent: 0, aside: 0, damaged: 0 };
const NOTHING_PENDING: PendingCommands = { commands: 0, bytes: 0, oldestAt: null, tasks: [], aside: 0 };

export class FleetClient {
  /** The operations of operators and their tools. */
  readonly admin: FleetAdmin;
  readonly tenant: string;
  readonly missions: MissionDirectory;
  readonly artifacts: Artifacts;
  readonly #parts: ClientParts & AdminParts;
  readonly #log: Logger;
  /** Handoffs that this client has accepted. */
  readonly #accepted = new Set<string>();

  constructor(parts: ClientParts) {
    const { connection, clock } = parts;
    const queries = new QuerySender(connection, clock, parts);
    const delivery = new CommandDelivery(parts);
    this.#parts = { ...parts, delivery, queries, tasks: new CheckpointTasks(queries) };
    this.tenant = parts.tenant;
    this.#log = parts.log ?? createLogger({ service: "sdk", level: "silent" });
    this.admin = new FleetAdmin(this.#parts);
    this.missions = new MissionDirectory(this.#parts);
    this.artifacts = new Artifacts(queries);
  }

  get agentId(): string {
    return this.#parts.agentId;
  }

  /** The identity of the fleet; undefined: none has answered yet, or it announces none. */
  get fleetId(): string | undefined {
    const { connection } = this.#parts;
    return connection.isUp ? connection.bus.fleet : undefined;
  }

  /** The operations on one mission: with a fence as its coordinator, else as a specialist. */
  mission(missionId: string, { fence }: { readonly fence?: number | undefined } = {}): MissionHandle {
    return new MissionHandle(this.#parts, missionId, fence);
  }

  /** The operations on one task, under one fence. */
  task(taskId: string, { fence }: { readonly fence?: number | undefined } = {}): TaskHandle {
    return new TaskHandle(this.#parts, taskId, fence);
  }

  /**
   * Makes this agent the task's owner; the former owner can no longer write to it. The handle carries the new fence. The task need not
   * exist yet. Throws CONFLICT if `expectedFence` is not the task's: another agent was faster.
   */
  async takeTask(taskId: string, options: TakeOptions = {}): Promise<TaskHandle> {
    const body = toSnake({ heartbeats: options.heartbeats });
    // Not queued: the agent cannot continue without the new fence.
    const { fence } = await this.#parts.delivery.deliverNow("take", taskId, body, options);
    return this.task(taskId, { fence });
  }

  releaseTask(
    taskId: string,
    options: CommandOptions & { readonly fence: number },
  ): Promise<CheckpointOutcome["outcome"]> {
    return this.task(taskId).release(options);
  }

  /** Resolves with the checkpoint as it is stored, and the outcome. {@link TaskHandle.checkpoint} answers with the outcome alone. */
  async createCheckpoint({
    taskId,
    checkpoint,
    ...options
  }: CreateCheckpointParams): Promise<WrittenCheckpoint> {
    const included = { ...options, includeCheckpoint: true };
    return this.#written(await this.task(taskId).checkpoint(checkpoint, included), options);
  }

  /** See {@link TaskHandle.update}. Resolves like {@link createCheckpoint}. */
  async updateCheckpoint(
    id: string,
    patch: Record<string, unknown>,
    options: ChangeOptions = {},
  ): Promise<WrittenCheckpoint> {
    const task = await this.taskOf(id, options);
    return this.#written(await task.update(id, patch, { ...options, includeCheckpoint: true }), options);
  }

  async finalizeCheckpoint(
    id: string,
    status: FinalStatus,
    options: ChangeOptions & FinalizeOptions = {},
  ): Promise<CheckpointOutcome> {
    return (await this.taskOf(id, options)).finalize(id, status, options);
  }

  async linkCheckpoints(
    parentId: string,
    childId: string,
    options: ChangeOptions = {},
  ): Promise<CheckpointOutcome> {
    return (await this.taskOf(childId, options)).link(parentId, childId, options);
  }

  /** Requests a handoff of a checkpoint; null: of the newest one of `taskId`. See {@link TaskHandle.handOff}. */
  async initiateHandoff(
    checkpointId: string | null,
    options: InitiateHandoffOptions = {},
  ): Promise<HandoffOutcome> {
    if (checkpointId !== null) {
      return (await this.taskOf(checkpointId, options)).handOff({ ...options, checkpointId });
    }
    if (options.taskId === undefined) throw invalid("taskId", "the task to hand off");
    return this.task(options.taskId).handOff(options);
  }

  /**
   * Accepts an offer, or the offer of the handoff of a checkpoint (seed 000 §5.1): this agent, or `newAgentId`, then owns the task under
   * the fence of the returned handle. Throws CONFLICT if another agent has the task, the deadline has passed, the handoff was cancelled,
   * or the fleet did not make this offer.
   */
  acknowledgeHandoff(offer: OfferReference, options?: AcknowledgeOptions): Promise<AcceptedHandoff>;
  acknowledgeHandoff(
    checkpointId: string,
    newAgentId?: string,
    options?: AcknowledgeOptions,
  ): Promise<AcceptedHandoff>;
  async acknowledgeHandoff(
    offered: OfferReference | string,
    second: AcknowledgeOptions | string = {},
    third: AcknowledgeOptions = {},
  ): Promise<AcceptedHandoff> {
    const options = typeof second === "string" ? { ...third, newAgentId: second } : { ...third, ...second };
    const offer = typeof offered === "string" ? await this.#offerOf(offered, options) : offered;
    const { task_id, handoff_id, agent_type, checkpoint, digest } = offer;
    const { heartbeats, newAgentId: onBehalfOf } = options;
    const named = { handoff_id, checkpoint_id: checkpoint.id, agent_type, offer_digest: digest };
    const body = toSnake({ ...named, heartbeats });
    const answer = await this.#parts.delivery.deliverNow("acknowledge", task_id, body, {
      ...options,
      onBehalfOf,
    });
    return { ...resultOf(answer), task: this.task(task_id, { fence: answer.fence }) };
  }

  cancelHandoff(taskId: string, options: CancelHandoffOptions = {}): Promise<HandoffChange> {
    return this.task(taskId).cancelHandoff(options);
  }

  /** The handoff with an id; null if there is none. */
  async handoff(handoffId: string, { deadlineMs, signal }: CallOptions = {}): Promise<Handoff | null> {
    return (await this.#parts.queries.find("handoff", { handoffId, deadlineMs, signal }))?.handoff ?? null;
  }

  /** The task's open handoff, else its latest; null if it never had one. */
  async handoffOf(taskId: string, { deadlineMs, signal }: CallOptions = {}): Promise<Handoff | null> {
    return (await this.#parts.queries.find("handoff", { taskId, deadlineMs, signal }))?.handoff ?? null;
  }

  /** Newest first, in pages. */
  handoffs(query: HandoffsOptions & CallOptions = {}): Promise<HandoffPage> {
    return this.#parts.queries.send("handoffs", query);
  }

  /**
   * Handles the offers for agents of a type, at most `concurrency` at a time. A handler acknowledges or declines; one that returns
   * declines. Returns a function that stops taking offers and resolves when the running handlers are done.
   */
  async onOffer(agentType: string, handler: OfferHandler, options: OfferOptions = {}): Promise<Stop> {
    const { tenant, agentId, connection, queries, clock } = this.#parts;
    const acknowledge = this.acknowledgeHandoff.bind(this);
    const shared = { bus: connection.bus, queries, clock, log: this.#log, accepted: this.#accepted };
    const parts = { ...shared, tenant, agentId, acknowledge };
    return takeOffers(parts, agentType, handler, options);
  }

  /** Sends a heartbeat every `everyMs` (default {@link LIMITS.heartbeat_ms}). Stop it before the client is closed. */
  startHeartbeat(
    state: HeartbeatState,
    { everyMs }: { readonly everyMs?: number | undefined } = {},
  ): HeartbeatSender {
    return new HeartbeatSender({ ...this.#parts, log: this.#log, everyMs }, state);
  }

  /** Reports how the work on a task ended. Durable when it resolves. Repeated with its `report_id`, it is stored once. */
  async reportExit(report: ExitReport): Promise<void> {
    const { connection, tenant } = this.#parts;
    const { report_id, agent_id, task_id } = validate(exitReportSchema, report);
    const body = encodeBody(report, CONTENT_TYPES.json);
    const options = {
      messageId: report_id ?? hash("sha256", body, "hex"),
      timeoutMs: LIMITS.request_deadline_ms_default,
    };
    await connection.bus.publishDurable(SUBJECTS.exit(tenant, agent_id, task_id), { body }, options);
  }

  /** With the signatures of people, unless `asStored`. null: there never was one. Throws CORRUPT for another hash, NOT_FOUND if retention has removed it. */
  async getCheckpoint(id: string, options: GetOptions = {}): Promise<DisplayedCheckpoint | null> {
    const found = await this.#parts.queries.find("get", { ...options, checkpointId: id });
    warnOfRestored(this.#parts.onWarning, found);
    return found && (options.asStored === true ? found.checkpoint : withAnswered(found.checkpoint, found));
  }

  getLatestCheckpoint(taskId: string, options: CallOptions = {}): Promise<DisplayedCheckpoint | null> {
    return this.task(taskId).resume(options);
  }

  latest(taskId: string, options: CallOptions = {}): Promise<LatestResult> {
    return this.task(taskId).latest(options);
  }

  getCheckpointHistory(taskId: string, options: HistoryOptions & CallOptions = {}): Promise<CheckpointPage> {
    return this.task(taskId).history(options);
  }

  getCheckpointsByAgent(agentId: string, range: AgentRange & CallOptions = {}): Promise<SearchResult> {
    return this.#parts.queries.send("by_agent", { ...range, agentId });
  }

  searchCheckpoints(query: SearchOptions & CallOptions): Promise<SearchResult> {
    return this.#parts.queries.send("search", query);
  }

  /** null if the task does not exist. */
  getTask(taskId: string, options: CallOptions = {}): Promise<Task | null> {
    return this.task(taskId).state(options);
  }

  getAudit(taskId: string, options: AuditOptions & CallOptions = {}): Promise<AuditPage> {
    return this.#parts.queries.send("audit", { ...options, taskId });
  }

  /**
   * Recomputes the task's audit chain in this process, and verifies its signatures; the server is trusted for the list of keys only. `onProgress`
   * receives the number of verified entries.
   */
  async verifyAudit(
    taskId: string,
    { onProgress, ...options }: CallOptions & { readonly onProgress?: (entries: number) => void } = {},
  ): Promise<TrailReport> {
    const keys = new KnownKeys(() => this.admin.signingKeys(options));
    const verifier = new TrailVerifier({ tenant: this.tenant, task: taskId }, keys);
    const pageFrom = async (fromSeq: number) => {
      const page = await this.getAudit(taskId, { ...options, ...SIGNED_PAGE, fromSeq });
      return { ...page, head: { seq: page.task.audit_seq, hash: page.task.audit_hash } };
    };
    return verifier.verify(pageFrom, onProgress);
  }

  /** Records an event of a session of this agent, and answers what follows from it. May be repeated. */
  turnEvent(event: Camel<QueryInput<"turn_event">> & CallOptions): Promise<TurnResult> {
    return this.#parts.queries.send("turn_event", event);
  }

  /** Handles events of this tenant, or of one task, from now on. At least once, in order per task. */
  async onEvent(handler: (event: FleetEvent) => void, options: { taskId?: string } = {}): Promise<Stop> {
    const { tenant, connection } = this.#parts;
    const subject =
      options.taskId === undefined
        ? SUBJECTS.tenantEvents(tenant)
        : SUBJECTS.taskEvents(tenant, options.taskId);
    return connection.bus.subscribe(subject, (message) => {
      if (isConfirmation(message)) return;
      handler(JSON.parse(new TextDecoder().decode(message.body)) as FleetEvent);
    });
  }

  /** Handles the requests of others for a fresh checkpoint of this agent. */
  onCheckpointRequest(handler: () => void): Promise<Stop> {
    return onCheckpointRequest(this.#parts, handler);
  }

  requestCheckpoint(taskId: string, options: CallOptions = {}): Promise<RequestedCheckpoint> {
    return requestCheckpoint(this, this.#parts, taskId, options);
  }

  /** The commands of this agent that wait on this machine for a bus, from all its processes. */
  async pending(): Promise<PendingCommands> {
    return (await this.#parts.spool?.pending()) ?? NOTHING_PENDING;
  }

  /**
   * Waits until the spool is empty, at most `deadlineMs`. Resolves with the remaining commands. For a process that is about to end.
   */
  async flush({
    deadlineMs = LIMITS.request_deadline_ms_default,
    signal,
  }: CallOptions = {}): Promise<PendingCommands> {
    return (await this.#parts.spool?.flush(deadlineMs, signal)) ?? NOTHING_PENDING;
  }

  /** What this client has sent from the spool so far, and set aside there. */
  get spoolCounts(): SpoolCounts {
    return this.#parts.spool?.counts ?? NOTHING_SENT;
  }

  /** Sends the spool for a moment; commands that are left stay there for the next process of this agent. */
  async close(): Promise<void> {
    const { connection, order, spool } = this.#parts;
    if (connection.isUp) await spool?.flush(CLOSE_MS);
    await spool?.close();
    await order.saved();
    await connection.close();
  }

  /** A writer that cannot read what it has just committed answers without it. Then a reader has it. */
  async #written(
    outcome: CheckpointOutcome,
    { deadlineMs, signal }: CallOptions,
  ): Promise<WrittenCheckpoint> {
    if (outcome.outcome !== "committed") return outcome;
    const { checkpoint: included, ...committed } = outcome;
    const { checkpointId, version } = committed;
    const read = { version, deadlineMs, signal };
    const stored = included ?? (await this.getCheckpoint(checkpointId, read).catch(rethrowUnread(committed)));
    return stored === null ? rethrowUnread(committed)() : { ...stored, ...committed };
  }

  async #offerOf(checkpointId: string, options: CallOptions): Promise<OfferReference> {
    const id = normalizeCheckpointId(checkpointId);
    const { id: task_id } = await this.taskOf(id, options);
    return offerReference(id, task_id, await this.handoffOf(task_id, options));
  }

  /** The handle of the task to which a checkpoint belongs. */
  async taskOf(checkpointId: string, options: ChangeOptions = {}): Promise<TaskHandle> {
    return this.task(await this.#parts.tasks.find(checkpointId, options));
  }
}
