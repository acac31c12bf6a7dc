/**
 * The client: everything an agent or an orchestrator can ask of Fleet, typed. Checkpoints are data and keep their snake_case names;
 * functions and options are camelCase. Operations as in seed 000 §5.1.
 */
import { uuidv7 } from "uuidv7";
import type { Bus } from "../bus/bus.ts";
import { type ChainReport, createChainVerifier } from "../integrity/chain.ts";
import type { CommittedAnswer, OwnershipAnswer } from "../protocol/answers.ts";
import type { Checkpoint, FinalStatus } from "../protocol/checkpoint.ts";
import { FleetError } from "../protocol/errors.ts";
import type { FleetEvent } from "../protocol/events.ts";
import { normalizeCheckpointId } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import type {
  AuditPage,
  CheckpointPage,
  FleetStatus,
  IndexStatus,
  LatestResult,
  QueryResults,
  SearchResult,
} from "../protocol/queries.ts";
import { type CommandOp, type QueryOp, SUBJECTS } from "../protocol/subjects.ts";
import type { Task } from "../protocol/task.ts";
import type { Clock } from "../runtime/clock.ts";
import { type AskOptions, ask } from "./asking.ts";
import { toCamel, toSnake } from "./casing.ts";
import type {
  AgentRange,
  ChangeOptions,
  CommandOptions,
  CreateCheckpointParams,
  FinalizeOptions,
  HistoryOptions,
  SearchOptions,
  TakeOptions,
  TaskOperations,
} from "./operations.ts";
import type { Committed, Outcome } from "./outcome.ts";
import { TaskHandle } from "./task.ts";

/** Something that is not an error of the call, but must not go unseen. */
export interface FleetWarning {
  readonly code: "CHECKPOINT_CORRUPT" | "LARGE_CHECKPOINT";
  readonly text: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export interface ClientContext {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly tenant: string;
  readonly agentId: string;
  readonly onWarning: (warning: FleetWarning) => void;
}

/** Tasks of the checkpoints that this client saw last, so that changing them needs no look-up. */
const TASKS_REMEMBERED = 10_000;

export class FleetClient implements TaskOperations {
  readonly #context: ClientContext;
  readonly #taskOf = new Map<string, string>();

  constructor(context: ClientContext) {
    this.#context = context;
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
    const { fence } = await this.#send<OwnershipAnswer>("take", taskId, {}, options);
    return this.task(taskId, { fence });
  }

  /** Gives the task back: nobody owns it then, and its fence stays as it is. */
  async releaseTask(taskId: string, options: CommandOptions & { fence: number }): Promise<void> {
    await this.#send<OwnershipAnswer>("release", taskId, {}, options);
  }

  async createCheckpoint(params: CreateCheckpointParams): Promise<Outcome> {
    const { taskId, checkpoint, ...options } = params;
    return this.#command("create", taskId, { checkpoint }, options);
  }

  /** `patch`: a JSON merge patch (RFC 7396); null removes, arrays are replaced. */
  async updateCheckpoint(
    id: string,
    patch: Record<string, unknown>,
    options: ChangeOptions = {},
  ): Promise<Outcome> {
    const task = await this.#task(id, options);
    return this.#command("update", task, { checkpoint_id: normalizeCheckpointId(id), patch }, options);
  }

  async finalizeCheckpoint(id: string, status: FinalStatus, options: FinalizeOptions = {}): Promise<Outcome> {
    const { retentionPolicy, ...rest } = options;
    const task = await this.#task(id, options);
    const body = {
      checkpoint_id: normalizeCheckpointId(id),
      status,
      ...(retentionPolicy && { retention_policy: retentionPolicy }),
    };
    return this.#command("finalize", task, body, rest);
  }

  async linkCheckpoints(parentId: string, childId: string, options: ChangeOptions = {}): Promise<Outcome> {
    const task = await this.#task(childId, options);
    const [parent_id, child_id] = [normalizeCheckpointId(parentId), normalizeCheckpointId(childId)];
    return this.#command("link", task, { parent_id, child_id }, options);
  }

  /** null when there is none; throws CORRUPT when its bytes do not verify. */
  async getCheckpoint(
    id: string,
    options: AskOptions & { version?: number } = {},
  ): Promise<Checkpoint | null> {
    const { version, ...rest } = options;
    const body = { checkpoint_id: id, ...(version !== undefined && { version }) };
    return (await this.#orNull(this.#query("get", body, rest)))?.checkpoint ?? null;
  }

  /** The newest sound checkpoint; those passed over because they are corrupt are reported through `onWarning`. */
  async getLatestCheckpoint(taskId: string, options: AskOptions = {}): Promise<Checkpoint | null> {
    return (await this.latest(taskId, options)).checkpoint;
  }

  /** Like {@link getLatestCheckpoint}, with what was passed over. */
  async latest(taskId: string, options: AskOptions = {}): Promise<LatestResult> {
    const result = await this.#query("latest", { task_id: taskId }, options);
    for (const corrupt of result.passed_over) {
      this.#context.onWarning({
        code: "CHECKPOINT_CORRUPT",
        text: "a newer checkpoint is corrupt and was passed over",
        details: { task_id: taskId, ...corrupt },
      });
    }
    return result;
  }

  getCheckpointHistory(taskId: string, options: HistoryOptions & AskOptions = {}): Promise<CheckpointPage> {
    const { deadlineMs, signal, ...query } = options;
    return this.#query("history", { task_id: taskId, ...toSnake(query) }, { deadlineMs, signal });
  }

  getCheckpointsByAgent(agentId: string, range: AgentRange & AskOptions = {}): Promise<SearchResult> {
    const { deadlineMs, signal, ...query } = range;
    return this.#query("by_agent", { agent_id: agentId, ...toSnake(query) }, { deadlineMs, signal });
  }

  searchCheckpoints(query: SearchOptions & AskOptions): Promise<SearchResult> {
    const { deadlineMs, signal, ...rest } = query;
    return this.#query("search", toSnake(rest), { deadlineMs, signal });
  }

  async getTask(taskId: string, options: AskOptions = {}): Promise<Task | null> {
    return (await this.#orNull(this.#query("task", { task_id: taskId }, options)))?.task ?? null;
  }

  getAudit(
    taskId: string,
    options: AskOptions & { fromSeq?: number; limit?: number } = {},
  ): Promise<AuditPage> {
    const { deadlineMs, signal, ...query } = options;
    return this.#query("audit", { task_id: taskId, ...toSnake(query) }, { deadlineMs, signal });
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

  status(options: AskOptions = {}): Promise<FleetStatus> {
    return this.#query("status", {}, options);
  }

  indexStatus(options: AskOptions = {}): Promise<IndexStatus> {
    return this.#query("index_status", {}, options);
  }

  /** Starts to build the search index anew from the store; follow it with {@link indexStatus}. */
  rebuildIndex(options: AskOptions = {}): Promise<IndexStatus> {
    return this.#query("index_rebuild", {}, options);
  }

  /** Events of this tenant, or of one task, from now on. At least once, in order per task. */
  onEvent(
    handler: (event: FleetEvent) => void,
    options: { taskId?: string } = {},
  ): Promise<() => Promise<void>> {
    const { tenant, bus } = this.#context;
    const subject =
      options.taskId === undefined
        ? SUBJECTS.tenantEvents(tenant)
        : SUBJECTS.taskEvents(tenant, options.taskId);
    return bus.subscribe(subject, (message) => {
      handler(JSON.parse(new TextDecoder().decode(message.body)) as FleetEvent);
    });
  }

  close(): Promise<void> {
    return this.#context.bus.close();
  }

  async #send<A>(
    op: CommandOp,
    taskId: string,
    body: object,
    options: CommandOptions & TakeOptions,
  ): Promise<A> {
    const { fence, expectedVersion, expectedFence } = options;
    // One spelling of an id on the wire: a retry must repeat its bytes.
    const commandId = options.commandId === undefined ? uuidv7() : normalizeCheckpointId(options.commandId);
    const request = { command_id: commandId, ...body, ...toSnake({ fence, expectedVersion, expectedFence }) };
    const subject = SUBJECTS.command(this.#context.tenant, this.#context.agentId, taskId, op);
    return ask<A>(this.#context, subject, request, options).catch((error: unknown) => {
      throw withCommand(error, commandId);
    });
  }

  async #command(op: CommandOp, taskId: string, body: object, options: CommandOptions): Promise<Committed> {
    const { status, ...answer } = await this.#send<CommittedAnswer>(op, taskId, body, options);
    this.#remember(answer.checkpoint_id, taskId);
    if (answer.warnings?.includes("large_checkpoint")) {
      this.#context.onWarning({
        code: "LARGE_CHECKPOINT",
        text: "the checkpoint is large; keep artifacts elsewhere and refer to them",
        details: { checkpoint_id: answer.checkpoint_id, task_id: taskId },
      });
    }
    return { ...(toCamel(answer) as Omit<Committed, "outcome">), outcome: status };
  }

  async #query<Op extends QueryOp>(op: Op, body: object, options: AskOptions): Promise<QueryResults[Op]> {
    const subject = SUBJECTS.query(this.#context.tenant, op);
    const answer = await ask<{ result: QueryResults[Op] }>(this.#context, subject, body, options);
    return answer.result;
  }

  async #orNull<T>(query: Promise<T>): Promise<T | null> {
    try {
      return await query;
    } catch (error) {
      if (error instanceof FleetError && error.code === "NOT_FOUND") return null;
      throw error;
    }
  }

  async #task(id: string, options: ChangeOptions): Promise<string> {
    const known = options.taskId ?? this.#taskOf.get(normalizeCheckpointId(id));
    if (known !== undefined) return known;
    const found = await this.#query("get", { checkpoint_id: id }, options);
    const { checkpoint_id, task_id } = found.checkpoint.metadata;
    this.#remember(checkpoint_id, task_id);
    return task_id;
  }

  #remember(id: string, taskId: string): void {
    if (this.#taskOf.size >= TASKS_REMEMBERED) this.#taskOf.clear();
    this.#taskOf.set(id, taskId);
  }
}

/** After a TIMEOUT the caller may ask again, and needs the id to do so. */
function withCommand(error: unknown, commandId: string): unknown {
  if (!(error instanceof FleetError) || error.code !== "TIMEOUT") return error;
  return new FleetError(error.code, error.message, {
    fields: error.fields,
    details: { ...error.details, command_id: commandId },
    cause: error,
  });
}
