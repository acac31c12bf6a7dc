/**
 * The client: everything an agent or an orchestrator can ask of Fleet, typed. Checkpoints are data and keep their snake_case names;
 * functions and options are camelCase. Operations as in seed 000 §5.1.
 */
import { type ChainReport, createChainVerifier } from "../../integrity/chain.ts";
import { encodeBody } from "../../integrity/wire.ts";
import type { AcknowledgedAnswer, HandoffAnswer, OwnershipAnswer } from "../../protocol/answers.ts";
import type { Checkpoint, FinalStatus } from "../../protocol/checkpoint.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import type { FleetEvent } from "../../protocol/events.ts";
import { type ExitReport, exitReportSchema } from "../../protocol/exit-report.ts";
import type { Handoff } from "../../protocol/handoff-record.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type {
  AuditPage,
  CheckpointPage,
  HandoffPage,
  LatestResult,
  SearchResult,
} from "../../protocol/queries.ts";
import { CONTENT_TYPES, SUBJECTS } from "../../protocol/subjects.ts";
import type { Task } from "../../protocol/task.ts";
import { validate } from "../../protocol/validation.ts";
import { createLogger, type Logger } from "../../runtime/observability/log.ts";
import type { Stop } from "../../runtime/process/service.ts";
import { toCamel, toSnake } from "../case-convert.ts";
import { Heart, type Pulse } from "../heartbeat.ts";
import { type OfferHandler, type OfferOptions, type OfferParts, takeOffers } from "../offers.ts";
import type { AskOptions } from "../request/request.ts";
import type { Pending } from "../spool/spool.ts";
import { FleetAdmin } from "./admin.ts";
import { Calls, type ClientContext, orNull } from "./calls.ts";
import type {
  AcknowledgeOptions,
  AgentRange,
  CancelHandoffOptions,
  ChangeOptions,
  CommandOptions,
  CreateCheckpointParams,
  FinalizeOptions,
  HandoffsOptions,
  HistoryOptions,
  InitiateOptions,
  OfferReference,
  SearchOptions,
  TakeOptions,
  TaskOperations,
} from "./options.ts";
import type { HandoffChanged, HandoffOutcome, Outcome } from "./outcome.ts";
import { type Acknowledged, TaskHandle } from "./task.ts";

/** A process that only ever does one thing, such as a hook, must bring the spool on a little as well. */
const CLOSE_MS = 250;

const NOTHING_PENDING: Pending = { commands: 0, bytes: 0, oldestAt: null, tasks: [], aside: 0 };

export class FleetClient implements TaskOperations {
  /** What operators and their tools ask and command. */
  readonly admin: FleetAdmin;
  readonly #context: ClientContext;
  readonly #calls: Calls;
  /** Handoffs that this client has accepted. */
  readonly #accepted = new Set<string>();
  readonly #log: Logger;

  constructor(context: ClientContext) {
    this.#context = context;
    this.#calls = new Calls(context);
    this.admin = new FleetAdmin(context, this.#calls);
    this.#log = context.log ?? createLogger({ service: "sdk", level: "silent" });
  }

  get agentId(): string {
    return this.#context.agentId;
  }

  /** Operations on one task, under one fence. */
  task(taskId: string, options: { fence?: number } = {}): TaskHandle {
    return new TaskHandle(this, taskId, options.fence);
  }

  /**
   * Makes this agent the task's owner; whoever owned it before can no longer write to it. The handle carries the new fence. A task
   * need not exist yet. Throws CONFLICT when `expectedFence` is not the task's: somebody else was faster.
   */
  async takeTask(taskId: string, options: TakeOptions = {}): Promise<TaskHandle> {
    // Without the new fence nobody could go on, so it is not left to the queue.
    const { answer } = await this.#calls.send<OwnershipAnswer>(
      "take",
      taskId,
      toSnake({ heartbeats: options.heartbeats }),
      { ...options, fallback: "none" },
    );
    if (answer.status !== "committed") throw new FleetError("UNAVAILABLE", "the task was not taken yet");
    return this.task(taskId, { fence: answer.fence });
  }

  /** Gives the task back, at once or behind what is queued: nobody owns it then, and its fence stays as it is. */
  async releaseTask(
    taskId: string,
    options: CommandOptions & { fence: number },
  ): Promise<Outcome["outcome"]> {
    const { answer } = await this.#calls.send<OwnershipAnswer>("release", taskId, {}, options);
    return answer.status;
  }

  async createCheckpoint(params: CreateCheckpointParams): Promise<Outcome> {
    const { taskId, checkpoint, handoff, ...options } = params;
    const body = { checkpoint, ...(handoff && { handoff: toSnake(handoff) }) };
    return this.#calls.command("create", taskId, body, options, (commandId) => commandId);
  }

  /** `patch`: a JSON merge patch (RFC 7396); null removes, arrays are replaced. */
  async updateCheckpoint(
    id: string,
    patch: Record<string, unknown>,
    options: ChangeOptions = {},
  ): Promise<Outcome> {
    const task = await this.#calls.taskOf(id, options);
    const checkpoint_id = normalizeCheckpointId(id);
    return this.#calls.command("update", task, { checkpoint_id, patch }, options, () => checkpoint_id);
  }

  async finalizeCheckpoint(id: string, status: FinalStatus, options: FinalizeOptions = {}): Promise<Outcome> {
    const { retentionPolicy, ...rest } = options;
    const task = await this.#calls.taskOf(id, options);
    const checkpoint_id = normalizeCheckpointId(id);
    const body = {
      checkpoint_id,
      status,
      ...(retentionPolicy && { retention_policy: retentionPolicy }),
    };
    return this.#calls.command("finalize", task, body, rest, () => checkpoint_id);
  }

  async linkCheckpoints(parentId: string, childId: string, options: ChangeOptions = {}): Promise<Outcome> {
    const task = await this.#calls.taskOf(childId, options);
    const [parent_id, child_id] = [normalizeCheckpointId(parentId), normalizeCheckpointId(childId)];
    return this.#calls.command("link", task, { parent_id, child_id }, options, () => child_id);
  }

  /**
   * Asks for a handoff of a checkpoint; `null`: of the newest one of `taskId`. Throws CONFLICT while another handoff of the task is
   * open.
   */
  async initiateHandoff(checkpointId: string | null, options: InitiateOptions = {}): Promise<HandoffOutcome> {
    const { toAgentType, nextPhase, reason, ...rest } = options;
    if (checkpointId === null && rest.taskId === undefined) throw invalid("taskId", "the task to hand off");
    const task = rest.taskId ?? (await this.#calls.taskOf(checkpointId as string, rest));
    const named = checkpointId === null ? undefined : normalizeCheckpointId(checkpointId);
    const body = toSnake({ checkpointId: named, toAgentType, nextPhase, reason });
    const { answer, commandId } = await this.#calls.send<HandoffAnswer>("handoff", task, body, rest);
    if (answer.status !== "committed") {
      return { outcome: answer.status, commandId, taskId: task, handoffId: commandId };
    }
    const { status, ...changed } = answer;
    return { ...(toCamel(changed) as HandoffChanged), outcome: status };
  }

  /**
   * Takes what was offered: this agent owns the task then, under the fence of the returned handle. Throws CONFLICT when somebody else
   * has it, the deadline is over, or the handoff was taken back.
   */
  async acknowledgeHandoff(offer: OfferReference, options: AcknowledgeOptions = {}): Promise<Acknowledged> {
    const { task_id, handoff_id, agent_type, checkpoint } = offer;
    const { heartbeats } = options;
    const body = toSnake({ handoff_id, checkpoint_id: checkpoint.id, agent_type, heartbeats });
    const sent = { ...options, fallback: "none" } as const;
    const { answer } = await this.#calls.send<AcknowledgedAnswer>("acknowledge", task_id, body, sent);
    if (answer.status !== "committed") throw new FleetError("UNAVAILABLE", "the handoff is not accepted yet");
    const { status: _status, ...accepted } = answer;
    return { ...toCamel(accepted), task: this.task(task_id, { fence: answer.fence }) } as Acknowledged;
  }

  /** Only while nobody has accepted it; throws CONFLICT then, NOT_FOUND when none is open. */
  async cancelHandoff(taskId: string, options: CancelHandoffOptions = {}): Promise<HandoffChanged> {
    const { handoffId, reason, ...rest } = options;
    const sent = { ...rest, fallback: "none" } as const;
    const body = toSnake({ handoffId, reason });
    const { answer } = await this.#calls.send<HandoffAnswer>("cancel_handoff", taskId, body, sent);
    if (answer.status !== "committed")
      throw new FleetError("UNAVAILABLE", "the handoff is not cancelled yet");
    const { status: _status, ...changed } = answer;
    return toCamel(changed) as HandoffChanged;
  }

  /** By its id; null when there is none. */
  async handoff(handoffId: string, options: AskOptions = {}): Promise<Handoff | null> {
    return (await orNull(this.#calls.query("handoff", { handoff_id: handoffId }, options)))?.handoff ?? null;
  }

  /** The task's open handoff, else its latest; null when it never had one. */
  async handoffOf(taskId: string, options: AskOptions = {}): Promise<Handoff | null> {
    return (await orNull(this.#calls.query("handoff", { task_id: taskId }, options)))?.handoff ?? null;
  }

  /** Newest first, in pages. */
  handoffs(query: HandoffsOptions & AskOptions = {}): Promise<HandoffPage> {
    const { deadlineMs, signal, ...rest } = query;
    return this.#calls.query("handoffs", toSnake(rest), { deadlineMs, signal });
  }

  /**
   * Offers for agents of a type, one after the other; `concurrency` handlers at once. A handler acknowledges, declines, or returns,
   * which declines. Returns how to stop: no new offers then, and it resolves when the handlers at work are done.
   */
  onOffer(agentType: string, handler: OfferHandler, options: OfferOptions = {}): Promise<Stop> {
    const { tenant, link, clock } = this.#context;
    const log = this.#log;
    const acknowledge: OfferParts["acknowledge"] = (offer, o) => this.acknowledgeHandoff(offer, o);
    const parts = { bus: link.bus, tenant, clock, log, acknowledge, accepted: this.#accepted };
    return takeOffers(parts, agentType, handler, options);
  }

  /** Beats every `everyMs` (default {@link LIMITS.heartbeat_ms}) until it is stopped; stop it before the client is closed. */
  startHeartbeat(pulse: Pulse, { everyMs }: { readonly everyMs?: number | undefined } = {}): Heart {
    return new Heart({ ...this.#context, log: this.#log, everyMs }, pulse);
  }

  /** Says how the work on a task ended, for whoever recovers it. Stored when it resolves; said again soon, it is stored once. */
  async reportExit(report: ExitReport): Promise<void> {
    const { link, tenant } = this.#context;
    const { agent_id, task_id, fence } = validate(exitReportSchema, report);
    const out = { body: encodeBody(report, CONTENT_TYPES.json) };
    const messageId = ["exit", tenant, agent_id, task_id, fence].join("/");
    const options = { messageId, timeoutMs: LIMITS.request_deadline_ms_default };
    await link.bus.publishDurable(SUBJECTS.exit(tenant, agent_id, task_id), out, options);
  }

  /** null when there is none; throws CORRUPT when its bytes do not verify. */
  async getCheckpoint(
    id: string,
    options: AskOptions & { version?: number } = {},
  ): Promise<Checkpoint | null> {
    const { version, ...rest } = options;
    const body = { checkpoint_id: id, ...(version !== undefined && { version }) };
    return (await orNull(this.#calls.query("get", body, rest)))?.checkpoint ?? null;
  }

  /** The newest sound checkpoint; those passed over because they are corrupt are reported through `onWarning`. */
  async getLatestCheckpoint(taskId: string, options: AskOptions = {}): Promise<Checkpoint | null> {
    return (await this.latest(taskId, options)).checkpoint;
  }

  /** Like {@link getLatestCheckpoint}, with what was passed over. */
  async latest(taskId: string, options: AskOptions = {}): Promise<LatestResult> {
    const result = await this.#calls.query("latest", { task_id: taskId }, options);
    this.#calls.warnOfCorrupt(taskId, result.passed_over);
    return result;
  }

  getCheckpointHistory(taskId: string, options: HistoryOptions & AskOptions = {}): Promise<CheckpointPage> {
    const { deadlineMs, signal, ...query } = options;
    return this.#calls.query("history", { task_id: taskId, ...toSnake(query) }, { deadlineMs, signal });
  }

  getCheckpointsByAgent(agentId: string, range: AgentRange & AskOptions = {}): Promise<SearchResult> {
    const { deadlineMs, signal, ...query } = range;
    return this.#calls.query("by_agent", { agent_id: agentId, ...toSnake(query) }, { deadlineMs, signal });
  }

  searchCheckpoints(query: SearchOptions & AskOptions): Promise<SearchResult> {
    const { deadlineMs, signal, ...rest } = query;
    return this.#calls.query("search", toSnake(rest), { deadlineMs, signal });
  }

  async getTask(taskId: string, options: AskOptions = {}): Promise<Task | null> {
    return (await orNull(this.#calls.query("task", { task_id: taskId }, options)))?.task ?? null;
  }

  getAudit(
    taskId: string,
    options: AskOptions & { fromSeq?: number; limit?: number } = {},
  ): Promise<AuditPage> {
    const { deadlineMs, signal, ...query } = options;
    return this.#calls.query("audit", { task_id: taskId, ...toSnake(query) }, { deadlineMs, signal });
  }

  /**
   * Recomputes the task's whole audit chain here, from the bytes that were hashed; the server is not trusted with it.
   * `onProgress` is told how many entries have been verified.
   */
  async verifyAudit(
    taskId: string,
    options: AskOptions & { onProgress?: (entries: number) => void } = {},
  ): Promise<ChainReport> {
    const verifier = createChainVerifier();
    for (let fromSeq = 1; ; ) {
      const page = await this.getAudit(taskId, { ...options, fromSeq, limit: LIMITS.audit_limit_max });
      for (const record of page.entries) verifier.add(record);
      const last = page.entries.at(-1);
      options.onProgress?.(last?.seq ?? 0);
      // The head of the last page's snapshot: entries written since the first page are part of the chain.
      if (!page.more || !last)
        return verifier.finish({ seq: page.task.audit_seq, hash: page.task.audit_hash });
      fromSeq = last.seq + 1;
    }
  }

  /** Events of this tenant, or of one task, from now on. At least once, in order per task. */
  async onEvent(
    handler: (event: FleetEvent) => void,
    options: { taskId?: string } = {},
  ): Promise<() => Promise<void>> {
    const { tenant, link } = this.#context;
    const subject =
      options.taskId === undefined
        ? SUBJECTS.tenantEvents(tenant)
        : SUBJECTS.taskEvents(tenant, options.taskId);
    return link.bus.subscribe(subject, (message) => {
      handler(JSON.parse(new TextDecoder().decode(message.body)) as FleetEvent);
    });
  }

  /** Commands that wait on this machine for a bus; of this agent, whichever process spooled them. */
  async pending(): Promise<Pending> {
    return (await this.#context.spool?.pending()) ?? NOTHING_PENDING;
  }

  /**
   * Waits until the spool is empty, at most `deadlineMs`; resolves with what is left. Sending goes on by itself in any case: this is
   * for a process that is about to end.
   */
  async flush({
    deadlineMs = LIMITS.request_deadline_ms_default,
    signal,
  }: AskOptions = {}): Promise<Pending> {
    return (await this.#context.spool?.flush(deadlineMs, signal)) ?? NOTHING_PENDING;
  }

  /** What waits in the spool is sent if that takes a moment; else it stays there for the next process of this agent. */
  async close(): Promise<void> {
    const { link, order, spool } = this.#context;
    if (link.isUp) await spool?.flush(CLOSE_MS);
    await spool?.close();
    await order.saved();
    await link.close();
  }
}
