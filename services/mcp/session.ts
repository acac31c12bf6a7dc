/** The work of one agent through its tools: the task that it owns, under one fence, with heartbeats while it owns it. */
import { continuationPrompt } from "../../shared/prompts/continuation.ts";
import type { Checkpoint } from "../../shared/protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../shared/protocol/checkpoint-pages.ts";
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import type { EsignBlock } from "../../shared/protocol/esign.ts";
import { prefixedCheckpointId } from "../../shared/protocol/ids.ts";
import type { McpToolCall } from "../../shared/protocol/mcp-tools.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import {
  type CheckpointTool,
  checkpointTool,
  type FleetClient,
  type HeartbeatSender,
  type TaskHandle,
} from "../../shared/sdk/sdk.ts";
import type { McpConfig } from "./config.ts";

/** A task that this session owns. */
interface OwnTask {
  readonly handle: TaskHandle;
  readonly tool: CheckpointTool;
  /** undefined: the runner of the agent sends them. */
  readonly heartbeat: HeartbeatSender | undefined;
}

export class McpSession {
  readonly fleet: FleetClient;
  readonly #config: McpConfig;
  readonly #log: Logger;
  readonly #own = new Map<string, OwnTask>();
  /** A model calls tools at the same time: the second one would find the task taken by the first. */
  readonly #taking = new Map<string, Promise<OwnTask>>();
  #taskId: string;

  constructor(fleet: FleetClient, config: McpConfig, log: Logger) {
    this.fleet = fleet;
    this.#config = config;
    this.#log = log;
    this.#taskId = config.task ?? fleet.agentId.replace(/[^A-Za-z0-9_-]/g, "-");
    // A runner has made its agent the owner, and sends the heartbeats.
    if (config.task !== undefined && config.fence !== undefined) this.#keep(config.task, config.fence, false);
  }

  async checkpoint({ taskId, ...call }: McpToolCall<"checkpoint">): Promise<object> {
    const id = taskId ?? this.#taskId;
    // Checked first: a refused call takes no task.
    checkpointTool(this.fleet, { taskId: id, agentType: this.#agentType }).check(call);
    const own = await this.#owned(id);
    const result = await own.tool.call(call);
    return { taskId: own.handle.id, ...result };
  }

  async resume({ taskId = this.#taskId, takeOver }: McpToolCall<"resume">): Promise<string> {
    const { checkpoint } = await this.fleet.latest(taskId);
    if (checkpoint === null)
      throw new FleetError("NOT_FOUND", "the task has no checkpoint to continue from", {
        details: { task_id: taskId },
      });
    await this.#take(taskId, takeOver);
    this.#taskId = taskId;
    return this.promptOf(checkpoint);
  }

  /** The prompt for the agent of this session. */
  promptOf(checkpoint: Checkpoint): string {
    return continuationPrompt({ checkpoint, tokenizer: "four_characters", reader: this.fleet.agentId }).text;
  }

  async handoff({ taskId = this.#taskId, toAgentType, reason }: McpToolCall<"handoff">): Promise<object> {
    const own = await this.#owned(taskId);
    const { handoffId, outcome } = await own.handle.handOff({ toAgentType, reason });
    await this.#release(taskId);
    return { taskId, handoffId, outcome, next: "Stop now: another agent continues." };
  }

  async search({ limit, ...query }: McpToolCall<"search">): Promise<object> {
    const { checkpoints } = await this.fleet.searchCheckpoints({ ...query, limit });
    return await this.#shortened(checkpoints);
  }

  async history({ taskId = this.#taskId, limit }: McpToolCall<"history">): Promise<object> {
    const { checkpoints, corrupt } = await this.fleet.getCheckpointHistory(taskId, { limit });
    return {
      taskId,
      ...(await this.#shortened(checkpoints)),
      corrupt: corrupt.map(corruptOf),
    };
  }

  /** Each with the signatures of all its versions, as in every display. */
  async #shortened(checkpoints: readonly Checkpoint[]): Promise<object> {
    const { signatures, unread } = await this.fleet.admin.esign.ofCheckpoints(checkpoints);
    const ofOne = ({ metadata }: Checkpoint) =>
      signatures.filter(({ checkpoint_id }) => checkpoint_id === metadata.checkpoint_id);
    return {
      checkpoints: checkpoints.map((one) => shortOf(one, ofOne(one))),
      ...(unread !== null && { signaturesUnread: unread.problem }),
    };
  }

  /** Changes the newest checkpoint of this agent in place, so that progress alone makes no new one. */
  async reportProgress({
    taskId = this.#taskId,
    step,
    percent,
  }: McpToolCall<"report_progress">): Promise<object> {
    const own = await this.#owned(taskId);
    const { checkpoint } = await own.handle.latest();
    const isOwn =
      checkpoint?.metadata.agent_id === this.fleet.agentId && checkpoint.metadata.status !== "finalized";
    if (checkpoint === null || !isOwn)
      throw invalid("taskId", "a task with a checkpoint of yours; call checkpoint first", taskId);
    const { checkpointId } = await own.handle.update(checkpoint.metadata.checkpoint_id, {
      execution_state: {
        ...(percent !== undefined && { progress_percent: percent }),
        // The partial work of the step before is not that of this one.
        current_step: { description: step, started_at: new Date().toISOString(), partial_work: null },
      },
    });
    return {
      taskId,
      checkpointId: prefixedCheckpointId(checkpointId),
      step,
      ...(percent !== undefined && { percent }),
    };
  }

  async close(): Promise<void> {
    for (const [taskId, { handle }] of this.#own) {
      // The task stays as it is for the next agent; a runner decides about its own.
      if (this.#config.fence === undefined)
        await handle
          .release({ deadlineMs: 1_000 })
          .catch((error: unknown) => this.#log.warn({ task_id: taskId, error }, "the task was not released"));
      await this.#release(taskId);
    }
  }

  get #agentType(): string {
    return this.#config.agentType ?? "implementation";
  }

  async #owned(taskId: string): Promise<OwnTask> {
    return this.#own.get(taskId) ?? this.#take(taskId, false);
  }

  /** Throws CONFLICT if another agent owns the task, unless `takeOver`; also if another agent takes it at the same moment. */
  async #take(taskId: string, takeOver: boolean): Promise<OwnTask> {
    const before = this.#taking.get(taskId) ?? Promise.resolve();
    const taken = before.catch(() => {}).then(() => this.#taken(taskId, takeOver));
    this.#taking.set(taskId, taken);
    try {
      return await taken;
    } finally {
      if (this.#taking.get(taskId) === taken) this.#taking.delete(taskId);
    }
  }

  async #taken(taskId: string, takeOver: boolean): Promise<OwnTask> {
    const known = this.#own.get(taskId);
    const head = await this.fleet.getTask(taskId);
    if (known !== undefined && head?.owner === this.fleet.agentId && head.fence === known.handle.fence)
      return known;
    const owner = head?.owner ?? null;
    if (owner !== null && owner !== this.fleet.agentId && !takeOver)
      throw new FleetError(
        "CONFLICT",
        "another agent owns the task; resume with takeOver takes it from that agent",
        {
          details: { task_id: taskId, owner },
        },
      );
    await this.#release(taskId);
    const handle = await this.fleet.takeTask(taskId, { expectedFence: head?.fence ?? 0, heartbeats: true });
    this.#log.info({ task_id: taskId, fence: handle.fence }, "task taken");
    return this.#keep(taskId, handle.fence ?? 0, true);
  }

  #keep(taskId: string, fence: number, beats: boolean): OwnTask {
    const agentType = this.#agentType;
    const { fleet } = this;
    const heartbeat = beats
      ? fleet.startHeartbeat({ state: "working", taskId, fence, agentType })
      : undefined;
    const own: OwnTask = {
      handle: fleet.task(taskId, { fence }),
      tool: checkpointTool(fleet, { taskId, agentType, fence }),
      heartbeat,
    };
    this.#own.set(taskId, own);
    this.#taskId = taskId;
    return own;
  }

  async #release(taskId: string): Promise<void> {
    const own = this.#own.get(taskId);
    this.#own.delete(taskId);
    await own?.heartbeat?.stop();
  }
}

function corruptOf({ checkpoint_id: id, version, reason }: CorruptCheckpoint): object {
  return { checkpointId: id === null ? null : prefixedCheckpointId(id), version, reason };
}

function shortOf(
  { metadata, execution_state: state }: Checkpoint,
  signatures: readonly EsignBlock[],
): object {
  const { checkpoint_id, task_id, agent_id, committed_at, version } = metadata;
  return {
    checkpointId: prefixedCheckpointId(checkpoint_id),
    taskId: task_id,
    agentId: agent_id,
    committedAt: committed_at,
    phase: state.phase,
    goal: state.goal,
    completed: state.completed_items.length,
    pending: state.pending_items.length,
    nextAction: state.resume_pointer?.next_action,
    ...(signatures.length > 0 && { version, signatures: signatures.map(shortSignature) }),
  };
}

function shortSignature(one: EsignBlock): object {
  const { version, newest_version: newest = version, state, printed_name, meaning, signed_at, zone } = one;
  return {
    ...{ version, state, printedName: printed_name, meaning, signedAt: signed_at, zone },
    ...(newest > version && { supersededBy: newest }),
  };
}
