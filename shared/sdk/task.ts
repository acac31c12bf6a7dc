/** A task as its agent holds it: every command carries the fence under which the agent owns the task. */
import type { Checkpoint, CheckpointInput, FinalStatus } from "../protocol/checkpoint.ts";
import { invalid } from "../protocol/errors.ts";
import type { CheckpointPage, LatestResult } from "../protocol/queries.ts";
import type { Task } from "../protocol/task.ts";
import type { ChangeOptions, CommandOptions, HistoryOptions, TaskOperations } from "./operations.ts";
import type { Outcome } from "./outcome.ts";

export class TaskHandle {
  readonly #client: TaskOperations;
  readonly id: string;
  readonly fence: number | undefined;

  constructor(client: TaskOperations, id: string, fence: number | undefined) {
    this.#client = client;
    this.id = id;
    this.fence = fence;
  }

  checkpoint(checkpoint: CheckpointInput, options: CommandOptions = {}): Promise<Outcome> {
    return this.#client.createCheckpoint({ ...this.#fenced(options), taskId: this.id, checkpoint });
  }

  update(id: string, patch: Record<string, unknown>, options: CommandOptions = {}): Promise<Outcome> {
    return this.#client.updateCheckpoint(id, patch, this.#fenced(options));
  }

  finalize(
    id: string,
    status: FinalStatus,
    options: CommandOptions & { retentionPolicy?: string } = {},
  ): Promise<Outcome> {
    return this.#client.finalizeCheckpoint(id, status, { ...options, ...this.#fenced(options) });
  }

  link(parentId: string, childId: string, options: CommandOptions = {}): Promise<Outcome> {
    return this.#client.linkCheckpoints(parentId, childId, this.#fenced(options));
  }

  /** Where to continue: the newest sound checkpoint, or null when the task is new. */
  resume(): Promise<Checkpoint | null> {
    return this.#client.getLatestCheckpoint(this.id);
  }

  latest(): Promise<LatestResult> {
    return this.#client.latest(this.id);
  }

  history(options: HistoryOptions = {}): Promise<CheckpointPage> {
    return this.#client.getCheckpointHistory(this.id, options);
  }

  state(): Promise<Task | null> {
    return this.#client.getTask(this.id);
  }

  /** Gives the task back. Throws INVALID for a handle without a fence, FENCED when another agent has taken the task meanwhile. */
  async release(options: CommandOptions = {}): Promise<void> {
    const fence = options.fence ?? this.fence;
    if (fence === undefined) throw invalid("fence", "the fence under which the task was taken");
    await this.#client.releaseTask(this.id, { ...options, fence });
  }

  #fenced(options: CommandOptions): ChangeOptions {
    return { ...options, taskId: this.id, fence: options.fence ?? this.fence };
  }
}
