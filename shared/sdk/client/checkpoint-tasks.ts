/** The task of each checkpoint: a command is addressed to a task, but the caller often knows the checkpoint only. */
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import type { QuerySender } from "../request/query-sender.ts";
import type { CallOptions } from "../request/request.ts";

const CHECKPOINTS_REMEMBERED = 10_000;

export class CheckpointTasks {
  readonly #queries: QuerySender;
  readonly #taskOf = new Map<string, string>();

  constructor(queries: QuerySender) {
    this.#queries = queries;
  }

  remember(checkpointId: string, taskId: string): void {
    if (this.#taskOf.size >= CHECKPOINTS_REMEMBERED) this.#taskOf.clear();
    this.#taskOf.set(checkpointId, taskId);
  }

  /** Resolves with the given task, else with the remembered one, else with that of the stored checkpoint. Throws NOT_FOUND. */
  async find(
    checkpointId: string,
    { taskId, deadlineMs, signal }: CallOptions & { readonly taskId?: string | undefined },
  ): Promise<string> {
    const known = taskId ?? this.#taskOf.get(normalizeCheckpointId(checkpointId));
    if (known !== undefined) return known;
    const found = await this.#queries.send("get", { checkpointId, deadlineMs, signal });
    const { checkpoint_id, task_id } = found.checkpoint.metadata;
    this.remember(checkpoint_id, task_id);
    return task_id;
  }
}
