/** A task as its agent holds it: every command carries the fence under which the agent owns the task. */
import type { AcknowledgedAnswer } from "../../protocol/answers.ts";
import type { Checkpoint, CheckpointInput, FinalStatus } from "../../protocol/checkpoint.ts";
import { invalid } from "../../protocol/errors.ts";
import type { CheckpointPage, LatestResult } from "../../protocol/queries.ts";
import type { Task } from "../../protocol/task.ts";
import type { Camel } from "../case-convert.ts";
import type {
  CancelHandoffOptions,
  CommandOptions,
  CreateOptions,
  HandoffWish,
  HistoryOptions,
  TaskOperations,
} from "./options.ts";
import type { HandoffChanged, HandoffOutcome, Outcome } from "./outcome.ts";

/** The task is this agent's, under the fence of the handle; the first checkpoint has to be written until the deadline. */
export interface Acknowledged extends Omit<Camel<AcknowledgedAnswer>, "status"> {
  readonly task: TaskHandle;
}

export class TaskHandle {
  readonly #client: TaskOperations;
  readonly id: string;
  readonly fence: number | undefined;

  constructor(client: TaskOperations, id: string, fence: number | undefined) {
    this.#client = client;
    this.id = id;
    this.fence = fence;
  }

  checkpoint(checkpoint: CheckpointInput, options: CreateOptions = {}): Promise<Outcome> {
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

  /** Asks for a handoff of the newest checkpoint. An agent that goes itself writes a last one in phase `handoff` instead. */
  handOff(options: CommandOptions & HandoffWish = {}): Promise<HandoffOutcome> {
    return this.#client.initiateHandoff(null, this.#fenced(options));
  }

  cancelHandoff(options: CancelHandoffOptions = {}): Promise<HandoffChanged> {
    return this.#client.cancelHandoff(this.id, this.#fenced(options));
  }

  #fenced<O extends CommandOptions>(options: O): O & { taskId: string; fence: number | undefined } {
    return { ...options, taskId: this.id, fence: options.fence ?? this.fence };
  }
}
