/**
 * Program: operators, who place holds on tasks and release them, and remove checkpoints, while retention removes others. Their calls are
 * recorded as those of the agents.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { TaskPage } from "../../../../shared/protocol/queries.ts";
import type { Task } from "../../../../shared/protocol/task.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { withCalls } from "../workers/calls.ts";
import { randomDeadline } from "./agent.ts";
import { AgentGroup, type AgentGroupArguments } from "./agent-group.ts";

const OPERATORS = 2;
const PAUSE_MS = 150;
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

const group = new AgentGroup(JSON.parse(process.argv[2]!) as AgentGroupArguments);

const below = (count: number): number => Math.floor(group.random() * count);
const pick = <T>(items: readonly T[]): T | undefined => items[below(items.length)];

const holdsOf = ({ retention }: Pick<Task, "retention">): readonly string[] => retention?.holds ?? [];

async function act(client: FleetClient, task: TaskPage["tasks"][number]): Promise<void> {
  const { retention } = client.admin;
  const { task_id: taskId } = task;
  const deadlineMs = randomDeadline(group.random);
  const dice = group.random();
  if (dice < SHARES.hold) {
    const held = pick(holdsOf(task));
    const isReleased = held !== undefined && group.random() < RELEASED_SHARE;
    const change = isReleased ? { release: held } : { hold: `case-${below(HOLDS)}` };
    return void (await retention.hold(taskId, { deadlineMs, ...change }));
  }
  const keep = 1 + below(KEEP_MAX);
  if (dice >= SHARES.hold + SHARES.remove) return void (await retention.prune({ taskId, keep, deadlineMs }));
  const { checkpoints } = await client.getCheckpointHistory(taskId, { limit: HISTORY, deadlineMs });
  // Those that may go, or any, of which most are needed.
  const asked = group.random() < ALLOWED_SHARE ? checkpoints.slice(keep) : checkpoints;
  const one = pick(asked)?.metadata.checkpoint_id;
  if (one !== undefined) await retention.remove(one, { taskId, keep, deadlineMs });
}

async function runOne(index: number): Promise<FleetClient> {
  const { client } = await group.connect(index, (bus) => withCalls(bus, group));
  for (let cursor: string | undefined; !group.stopping.aborted; ) {
    try {
      const page = await client.admin.tasks({ limit: LIMITS.tasks_limit_max, cursor });
      cursor = page.cursor;
      const task = pick(page.tasks);
      if (task !== undefined) await act(client, task);
    } catch (error) {
      // Most checkpoints are needed, and the fleet is often unavailable. The history has the outcome.
      group.log.debug({ error }, "an operator's act was refused");
    }
    await sleep(group.random() * PAUSE_MS);
  }
  return client;
}

process.send?.({ ready: true });
await group.stop(await Promise.all(Array.from({ length: OPERATORS }, (_, index) => runOne(index))));
