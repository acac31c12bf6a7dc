/** What people and their tools ask of a fleet: how it stands, what waits for them, and what they know of already. */
import type { AgentPage } from "../../protocol/agents.ts";
import type { AcknowledgedAlerts, AlertPage, AlertState } from "../../protocol/alert-queries.ts";
import type { ReceivedAlert } from "../../protocol/alerts.ts";
import type { RecoveryAnswer } from "../../protocol/answers.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError, invalid } from "../../protocol/errors.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import type {
  DeadLetterPage,
  DroppedLetter,
  FleetStatus,
  IndexStatus,
  QueryInput,
  QueueStatus,
  RecoveryPage,
  RecoveryPreview,
  RetriedLetter,
} from "../../protocol/queries.ts";
import type { ScrubFindingPage, ScrubStatus } from "../../protocol/scrub.ts";
import { SUBJECTS } from "../../protocol/subjects.ts";
import type { Stop } from "../../runtime/process/service.ts";
import { type Camel, toCamel, toSnake } from "../case-convert.ts";
import type { AskOptions } from "../request/request.ts";
import { type Calls, type ClientContext, orNull } from "./calls.ts";

export type AlertsOptions = Camel<QueryInput<"alerts">>;

export type RecoveriesOptions = Camel<QueryInput<"recoveries">>;

export interface RecoveryPointOptions extends AskOptions {
  /** One that is older than this. */
  readonly before?: string | undefined;
  /** This one, if it is one. */
  readonly checkpointId?: string | undefined;
  /** To whom it should be offered. */
  readonly toAgentType?: string | undefined;
}

/** `taskId` spares the look-up of the checkpoint's task. */
export interface RecoverOptions extends AskOptions {
  readonly commandId?: string | undefined;
  readonly taskId?: string | undefined;
  /** Who goes on. Default: the type that wrote the checkpoint, unless the policy names another for its next phase. */
  readonly toAgentType?: string | undefined;
  /** For the next agent and the audit trail. */
  readonly reason?: string | undefined;
  /** Gives the whole budget of attempts back. */
  readonly reset?: boolean | undefined;
  /** Although the task's agent lives. */
  readonly force?: boolean | undefined;
}

/** The task waits for its next agent, under the next fence; `checkpointId`: the one that was asked for. */
export type RecoveryResult = Omit<Camel<RecoveryAnswer>, "status">;

/** `fleet.admin`. */
export class FleetAdmin {
  readonly #context: ClientContext;
  readonly #calls: Calls;

  constructor(context: ClientContext, calls: Calls) {
    this.#context = context;
    this.#calls = calls;
  }

  status(options: AskOptions = {}): Promise<FleetStatus> {
    return this.#calls.query("status", {}, options);
  }

  indexStatus(options: AskOptions = {}): Promise<IndexStatus> {
    return this.#calls.query("index_status", {}, options);
  }

  /** Agents that say that they live, then owners of tasks that say nothing; in pages. */
  agents(
    options: AskOptions & { limit?: number | undefined; cursor?: string | undefined } = {},
  ): Promise<AgentPage> {
    const { deadlineMs, signal, ...query } = options;
    return this.#calls.query("agents", query, { deadlineMs, signal });
  }

  /** Starts to build the search index anew from the store; follow it with {@link indexStatus}. */
  rebuildIndex(options: AskOptions = {}): Promise<IndexStatus> {
    return this.#calls.query("index_rebuild", {}, options);
  }

  queueStatus(options: AskOptions = {}): Promise<QueueStatus> {
    return this.#calls.query("queue_status", {}, options);
  }

  /** Commands that could not be applied, oldest first; `fromSeq`: the `next_seq` of the page before. */
  deadLetters(options: AskOptions & { fromSeq?: number; limit?: number } = {}): Promise<DeadLetterPage> {
    const { deadlineMs, signal, ...query } = options;
    return this.#calls.query("dead_list", toSnake(query), { deadlineMs, signal });
  }

  /** Puts a dead letter's command back into the queue, under its own id. Throws NOT_FOUND. */
  retryDeadLetter(seq: number, options: AskOptions = {}): Promise<RetriedLetter> {
    return this.#calls.query("dead_retry", { seq }, options);
  }

  /** Removes a dead letter for good. Throws NOT_FOUND. */
  dropDeadLetter(seq: number, options: AskOptions = {}): Promise<DroppedLetter> {
    return this.#calls.query("dead_drop", { seq }, options);
  }

  /**
   * The newest checkpoint of a task that verifies together with all that it goes back to; null when nothing was written yet. Throws CORRUPT
   * where the chain is broken: a person decides.
   */
  async findRecoveryPoint(taskId: string, options: RecoveryPointOptions = {}): Promise<Checkpoint | null> {
    const { checkpoint, reason, details, passed_over } = await this.recoveryPoint(taskId, options);
    if (reason !== "chain_broken") return checkpoint;
    throw new FleetError("CORRUPT", "the chain is broken; a person must decide", {
      details: { task_id: taskId, reason: details, corrupt: passed_over },
    });
  }

  /** Like {@link findRecoveryPoint}, with what was passed over, why there is none, who would lose the task, and to whom it would be offered. */
  async recoveryPoint(taskId: string, options: RecoveryPointOptions = {}): Promise<RecoveryPreview> {
    const { deadlineMs, signal, ...wish } = options;
    const body = toSnake({ taskId, ...wish });
    const point = await this.#calls.query("recovery_point", body, { deadlineMs, signal });
    this.#calls.warnOfCorrupt(taskId, point.passed_over);
    return point;
  }

  /**
   * Has a task recovered from a checkpoint; `null`: from the newest of `taskId` that verifies. Resolves when the task is taken from whoever
   * had it; then the watchdogs make the attempt. Throws CONFLICT for a task that is over and, without `force`, while its agent lives.
   */
  async executeRecovery(checkpointId: string | null, options: RecoverOptions = {}): Promise<RecoveryResult> {
    const { toAgentType, reason, reset, force, ...rest } = options;
    if (checkpointId === null && rest.taskId === undefined) throw invalid("taskId", "the task to recover");
    const task = rest.taskId ?? (await this.#calls.taskOf(checkpointId as string, rest));
    const named = checkpointId === null ? undefined : normalizeCheckpointId(checkpointId);
    const body = toSnake({ checkpointId: named, toAgentType, reason, reset, force });
    // Later it might strike another agent than was meant.
    const sent = { ...rest, fallback: "none" } as const;
    const { answer } = await this.#calls.send<RecoveryAnswer>("recover", task, body, sent);
    if (answer.status !== "committed") throw new FleetError("UNAVAILABLE", "the task is not recovered yet");
    const { status: _status, ...result } = answer;
    return toCamel(result) as RecoveryResult;
  }

  /** Tasks whose recovery is not idle, in the order of their names, in pages. */
  recoveries(query: RecoveriesOptions & AskOptions = {}): Promise<RecoveryPage> {
    const { deadlineMs, signal, ...rest } = query;
    return this.#calls.query("recoveries", toSnake(rest), { deadlineMs, signal });
  }

  /** Newest first, in pages; `acknowledged: false, resolved: false`: those that are open. */
  listAlerts(query: AlertsOptions & AskOptions = {}): Promise<AlertPage> {
    const { deadlineMs, signal, ...rest } = query;
    return this.#calls.query("alerts", toSnake(rest), { deadlineMs, signal });
  }

  /** By its id; null when there is none, or when it is longer ago than alerts are kept. */
  alert(alertId: string, options: AskOptions = {}): Promise<AlertState | null> {
    return orNull(this.#calls.query("alert", { alert_id: alertId }, options));
  }

  /**
   * Says that this client's agent, or person, knows of alerts. Who did so before is in the answer, and stays it. Throws NOT_FOUND when
   * there is no such alert; then none of them is acknowledged.
   */
  acknowledgeAlert(
    alertId: string | readonly string[],
    options: AskOptions & { note?: string | undefined } = {},
  ): Promise<AcknowledgedAlerts> {
    const { deadlineMs, signal, note } = options;
    const alertIds = typeof alertId === "string" ? [alertId] : alertId;
    const { agentId } = this.#context;
    return this.#calls.query("alert_ack", toSnake({ alertIds, agentId, note }), { deadlineMs, signal });
  }

  /** Alerts of this tenant from now on, as they are published. */
  async onAlert(
    handler: (alert: ReceivedAlert) => void,
    options: { taskId?: string | undefined; severity?: string | undefined } = {},
  ): Promise<Stop> {
    const { link, tenant } = this.#context;
    const { taskId: task, severity } = options;
    return link.bus.subscribe(SUBJECTS.alertsOf({ tenant, severity, task }), (message) => {
      handler(JSON.parse(new TextDecoder().decode(message.body)) as ReceivedAlert);
    });
  }

  /** How the scrubber stands: when everything stored was last verified, and what came of it. */
  scrubStatus(options: AskOptions = {}): Promise<ScrubStatus> {
    return this.#calls.query("scrub_status", {}, options);
  }

  /** Asks for a pass over everything that begins from now on; it has the number `requested_pass`. Asked twice, it is one. */
  startScrub(options: AskOptions = {}): Promise<ScrubStatus> {
    return this.#calls.query("scrub_start", {}, options);
  }

  /** What the scrubber found in this tenant and is still so, by task; in pages. */
  scrubFindings(
    options: AskOptions & { limit?: number | undefined; cursor?: string | undefined } = {},
  ): Promise<ScrubFindingPage> {
    const { deadlineMs, signal, ...query } = options;
    return this.#calls.query("scrub_findings", query, { deadlineMs, signal });
  }
}
