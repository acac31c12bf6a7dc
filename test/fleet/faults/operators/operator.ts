/** One operator: it places holds on tasks and releases them, removes checkpoints and requests recoveries, of one task after the other. */
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { TaskPage } from "../../../../shared/protocol/queries.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { randomDeadline } from "../agents/agent.ts";
import { kindOf } from "../workers/task-kinds.ts";

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
/** The shares of the recoveries that take a task from its agent, restore its budget, or begin at a certain checkpoint. */
const RECOVERY = { force: 0.5, reset: 0.3, named: 0.4 } as const;

const holdsOf = ({ retention }: Pick<Task, "retention">): readonly string[] => retention?.holds ?? [];

export class Operator {
  readonly #client: FleetClient;
  readonly #random: () => number;
  readonly #recoveries: number;
  #cursor: string | undefined;

  /** `recoveries`: the share of the acts that request a recovery. */
  constructor(client: FleetClient, random: () => number, { recoveries = 0 } = {}) {
    this.#client = client;
    this.#random = random;
    this.#recoveries = recoveries;
  }

  /** Acts on a task of the next page. Rejects when it is refused, as most removals are. */
  async act(): Promise<void> {
    const page = await this.#client.admin.tasks({ limit: LIMITS.tasks_limit_max, cursor: this.#cursor });
    this.#cursor = page.cursor;
    const task = this.#pick(page.tasks);
    if (task === undefined) return;
    const recovers = this.#recoveries > 0 && this.#random() < this.#recoveries;
    await (recovers ? this.#recover(task) : this.#actOn(task));
  }

  async #recover({ task_id: taskId, agent_type }: TaskPage["tasks"][number]): Promise<void> {
    const kind = kindOf(taskId);
    // A healthy agent would lose its task, which must not happen to it.
    if (kind === "healthy") return;
    // Other agents would take the task of a worker and leave it undone.
    const toAgentType = kind === null ? undefined : (agent_type ?? undefined);
    const deadlineMs = randomDeadline(this.#random);
    const [force, reset, isNamed] = [RECOVERY.force, RECOVERY.reset, RECOVERY.named].map(
      (share) => this.#random() < share,
    );
    const options = { deadlineMs, limit: HISTORY };
    const { checkpoints } = isNamed
      ? await this.#client.getCheckpointHistory(taskId, options)
      : { checkpoints: [] };
    const id = this.#pick(checkpoints)?.metadata.checkpoint_id ?? null;
    await this.#client.admin.executeRecovery(id, { taskId, toAgentType, force, reset, deadlineMs });
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
