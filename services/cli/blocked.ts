// All tasks that are blocked, tried again one after the other. Each is a command of its own: whatever ends this in the middle leaves some
// tried again and the others blocked, and the same call goes on with those.

import { LIMITS } from "../../shared/protocol/limits.ts";
import type { FleetClient, Task } from "../../shared/sdk/sdk.ts";
import { failureOf } from "./failure.ts";
import {
  blockedData,
  type Retried,
  renderBlocked,
  renderRetried,
  retriedData,
  summary,
} from "./rendering/blocked.ts";
import type { Session } from "./session.ts";
import { UsageError } from "./usage.ts";

export interface Retrying {
  readonly agentType: string | undefined;
  readonly dryRun: boolean;
  /** Nobody is asked. */
  readonly sure: boolean;
  readonly reason: string | undefined;
  /** With the whole budget. */
  readonly reset: boolean;
}

export async function retryBlocked(session: Session, retrying: Retrying): Promise<void> {
  const client = await session.client();
  const tasks = await blockedTasks(session, client, retrying.agentType);
  if (tasks.length === 0) return session.tell("No such task is blocked.");
  if (retrying.dryRun) return list(session, tasks);
  if (!session.json) session.tell(renderBlocked(tasks, session.view));
  if (!retrying.sure) await requireConsent(tasks.length, retrying);
  const told: Retried[] = [];
  for (const { task_id: id } of tasks) {
    const one = await retried(session, client, id, retrying);
    told.push(one);
    const place = { number: told.length, of: tasks.length };
    session.line(retriedData(one), () => renderRetried(one, place, session.view));
    if (one.outcome !== "failed") continue;
    if (session.exitCode === 0) session.exitCode = one.failure.exitCode;
    // It is not about this task: the next ones would wait for the same.
    if (one.failure.body.retryable) break;
  }
  session.tell(summary(told, tasks.length));
}

function list(session: Session, tasks: readonly Task[]): void {
  if (session.json) for (const task of tasks) session.line(blockedData(task), () => "");
  else session.line(null, () => renderBlocked(tasks, session.view));
}

/** In the order of their names, all pages. */
async function blockedTasks(
  session: Session,
  client: FleetClient,
  agentType: string | undefined,
): Promise<Task[]> {
  const found: Task[] = [];
  const query = { ...session.ask, state: "blocked", limit: LIMITS.recoveries_limit_max } as const;
  let cursor: string | undefined;
  do {
    const page = await client.recoveries({ ...query, ...(cursor !== undefined && { cursor }) });
    found.push(...page.tasks);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return found.filter((task) => agentType === undefined || typeOf(task) === agentType);
}

/** Of the agent that failed, or else of the one that wrote last. */
function typeOf({ recovery, agent_type }: Task): string | null {
  return recovery?.failure?.agent_type ?? agent_type;
}

async function requireConsent(count: number, { reset }: Retrying): Promise<void> {
  const { confirmed } = await import("./questions.ts");
  const budget = reset ? ", with all attempts" : "";
  if (await confirmed(`Try ${count === 1 ? "this task" : `these ${count} tasks`} again${budget}?`)) return;
  throw new UsageError("nothing was done", "You did not say yes.");
}

/** Looked at once more: since the list was made, somebody else may have seen to it. */
async function retried(
  session: Session,
  client: FleetClient,
  taskId: string,
  { reason, reset }: Retrying,
): Promise<Retried> {
  try {
    const task = await client.getTask(taskId, session.ask);
    if (task?.recovery?.state !== "blocked") return { taskId, outcome: "passed_over" };
    const result = await client.executeRecovery(null, { ...session.ask, taskId, reason, reset });
    return { taskId, outcome: "asked", result };
  } catch (error) {
    return {
      taskId,
      outcome: "failed",
      failure: failureOf(error, { url: session.url, fleet: session.called }),
    };
  }
}
