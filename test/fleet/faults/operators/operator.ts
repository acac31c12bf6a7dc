/** One operator: it places holds on tasks and releases them, and removes checkpoints, of one task after the other. */
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { TaskPage } from "../../../../shared/protocol/queries.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { randomDeadline } from "../agents/agent.ts";

/** The shares of the acts. The rest are prunes of a task. */
const SHARES = { hold: 0.25, remove: 0.6 } as const;
/** The share of the held tasks that an act on them releases. */
const RELEASED_SHARE = 0.5;
const HOLDS = 3;
/** The share of the removals of a checkpoint behind those that the removal keeps. */
const ALLOWED_SHARE = 0.6;
/** The newest checkpoints that a removal keeps, from one to this number. */
const KEEP_MAX = 3;
const HISTORY = 30;

const holdsOf = ({ retention }: Pick<Task, "retention">): readonly string[] => retention?.holds ?? [];

export class Operator {
  readonly #client: FleetClient;
  readonly #random: () => number;
  #cursor: string | undefined;

  constructor(client: FleetClient, random: () => number) {
    this.#client = client;
    this.#random = random;
  }

  /** Acts on a task of the next page. Rejects when it is refused, as most removals are. */
  async act(): Promise<void> {
    const page = await this.#client.admin.tasks({ limit: LIMITS.tasks_limit_max, cursor: this.#cursor });
    this.#cursor = page.cursor;
    const task = this.#pick(page.tasks);
    if (task !== undefined) await this.#actOn(task);
  }

  async #actOn(task: TaskPage["tasks"][number]): Promise<void> {
    const { retention } = this.#client.admin;
    const { task_id: taskId } = task;
    const deadlineMs = randomDeadline(this.#random);
    const dice = this.#random();
    if (dice < SHARES.hold) {
      const held = this.#pick(holdsOf(task));
      const isReleased = held !== undefined && this.#random() < RELEASED_SHARE;
      const change = isReleased ? { release: held } : { hold: `case-${this.#below(HOLDS)}` };
      return void (await retention.hold(taskId, { deadlineMs, ...change }));
    }
    const keep = 1 + this.#below(KEEP_MAX);
    if (dice >= SHARES.hold + SHARES.remove)
      return void (await retention.prune({ taskId, keep, deadlineMs }));
    const { checkpoints } = await this.#client.getCheckpointHistory(taskId, { limit: HISTORY, deadlineMs });
    // Those that may go, or any, of which most are needed.
    const asked = this.#random() < ALLOWED_SHARE ? checkpoints.slice(keep) : checkpoints;
    const one = this.#pick(asked)?.metadata.checkpoint_id;
    if (one !== undefined) await retention.remove(one, { taskId, keep, deadlineMs });
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[this.#below(items.length)];
  }
}
