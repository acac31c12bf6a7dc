// All tasks that are blocked, tried again one after the other. Each is a command of its own: whatever ends this in the middle leaves some
// tried again and the others blocked, and the same call goes on with those.

import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { FleetClient, Task } from "../../../../shared/sdk/sdk.ts";
import {
  blockedData,
  needsCheckpoint,
  type RetryResult,
  renderBlocked,
  renderRetryResult,
  retryResultData,
  summary,
} from "../../rendering/recovery/blocked.ts";
import { callFailureOf } from "../../runtime/failure.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

export interface BlockedRetry {
  readonly agentType: string | undefined;
  readonly dryRun: boolean;
  /** Nobody is asked. */
  readonly sure: boolean;
  readonly reason: string | undefined;
  /** With the whole budget. */
  readonly reset: boolean;
}

export async function retryBlocked(session: Session, retrying: BlockedRetry): Promise<void> {
  const client = await session.client();
  const { agentType, dryRun, sure } = retrying;
  const found = await blockedTasks(session, client, agentType);
  if (found.length === 0) {
    const which = agentType === undefined ? "" : ` whose agent was of type ${agentType}`;
    return session.notice(`No task is blocked${which}.`);
  }
  const [tasks, needing] = parted(found);
  if (dryRun) return list(session, tasks, needing);
  for (const { task_id: taskId } of session.json ? needing : [])
    session.line(retryResultData({ taskId, outcome: "needs_checkpoint" }), () => "");
  if (!session.json) session.notice(renderBlocked(tasks, needing, session));
  if (tasks.length === 0) return;
  if (!sure) await requireConsent(session, tasks.length, retrying);
  const told: RetryResult[] = [];
  for (const { task_id: id } of tasks) {
    const one = await retried(session, client, id, retrying);
    told.push(one);
    const place = { number: told.length, of: tasks.length };
    session.line(retryResultData(one), () => renderRetryResult(one, place, session.view));
    if (one.outcome !== "failed") continue;
    if (session.exitCode === 0) session.exitCode = one.failure.exitCode;
    // It is not about this task: the next ones would wait for the same.
    if (one.failure.body.retryable) break;
  }
  session.notice(summary(told, tasks.length));
}

function list(session: Session, tasks: readonly Task[], needing: readonly Task[]): void {
  if (session.json) for (const task of [...tasks, ...needing]) session.line(blockedData(task), () => "");
  else session.line(null, () => renderBlocked(tasks, needing, session));
}

/** Those that can be tried again, and those that have nothing to go on from: each try would be refused. */
function parted(tasks: readonly Task[]): [Task[], Task[]] {
  return [tasks.filter((one) => !needsCheckpoint(one)), tasks.filter(needsCheckpoint)];
}

/** In the order of their names, all pages. */
async function blockedTasks(
  session: Session,
  client: FleetClient,
  agentType: string | undefined,
): Promise<Task[]> {
  const found: Task[] = [];
  const query = {
    ...session.deadline,
    state: "blocked",
    limit: LIMITS.recoveries_limit_max,
    ...(agentType !== undefined && { agentType }),
  } as const;
  let cursor: string | undefined;
  do {
    const page = await client.admin.recoveries({ ...query, ...(cursor !== undefined && { cursor }) });
    found.push(...page.tasks);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return found;
}

/** Throws UsageError where nobody can be asked. */
async function requireConsent(session: Session, count: number, { reset }: BlockedRetry): Promise<void> {
  if (!session.interactive) {
    throw new UsageError(
      "nobody is there to be asked",
      "See with --dry-run which tasks those are, then give --yes.",
    );
  }
  const { confirmed } = await import("../../runtime/prompts.ts");
  const budget = reset ? ", with all attempts" : "";
  if (await confirmed(`Try ${count === 1 ? "this task" : `these ${count} tasks`} again${budget}?`)) return;
  throw new UsageError("nothing was done", "You did not say yes.");
}

/** Looked at once more: since the list was made, somebody else may have seen to it. */
async function retried(
  session: Session,
  client: FleetClient,
  taskId: string,
  { reason, reset }: BlockedRetry,
): Promise<RetryResult> {
  try {
    const task = await client.getTask(taskId, session.deadline);
    if (task?.recovery?.state !== "blocked") return { taskId, outcome: "passed_over" };
    const result = await client.admin.executeRecovery(null, { ...session.deadline, taskId, reason, reset });
    return { taskId, outcome: "asked", result };
  } catch (error) {
    return {
      taskId,
      outcome: "failed",
      failure: callFailureOf(error, { url: session.url, fleet: session.programName }),
    };
  }
}
