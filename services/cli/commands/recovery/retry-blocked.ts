// Retries all blocked tasks, one after the other. Each retry is a command of its own: after an interruption some tasks
// are retried and the others are still blocked, and the same call continues with those.

import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { FleetClient, Task } from "../../../../shared/sdk/sdk.ts";
import {
  blockedData,
  needsCheckpoint,
  type RetryResult,
  renderBlocked,
  renderRetryResult,
  retryResultData,
  retrySummary,
} from "../../rendering/recovery/blocked.ts";
import { callFailureOf } from "../../runtime/failure.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

export interface BlockedRetry {
  readonly agentType: string | undefined;
  readonly dryRun: boolean;
  /** Whether to retry without asking the operator. */
  readonly isConfirmed: boolean;
  readonly reason: string | undefined;
  /** Whether to restore the whole budget. */
  readonly reset: boolean;
}

export async function retryBlocked(session: Session, retry: BlockedRetry): Promise<void> {
  const client = await session.client();
  const { agentType, dryRun } = retry;
  const found = await blockedTasks(session, client, agentType);
  if (found.length === 0) {
    const whose = agentType === undefined ? "" : ` whose agent was of type ${agentType}`;
    return session.notice(`There is no blocked task${whose}.`);
  }
  // Without a checkpoint there is nothing to continue from, and each retry would be refused.
  const [tasks, skipped] = [found.filter((one) => !needsCheckpoint(one)), found.filter(needsCheckpoint)];
  if (dryRun) return listTasks(session, tasks, skipped);
  for (const { task_id: taskId } of session.json ? skipped : [])
    session.line(retryResultData({ taskId, outcome: "needs_checkpoint" }), () => "");
  if (!session.json) session.notice(renderBlocked(tasks, skipped, session));
  if (tasks.length === 0) return;
  if (!retry.isConfirmed) await requireConfirmation(session, tasks.length, retry);
  const results: RetryResult[] = [];
  for (const { task_id: id } of tasks) {
    const result = await retryTask(session, client, id, retry);
    results.push(result);
    const place = { number: results.length, of: tasks.length };
    session.line(retryResultData(result), () => renderRetryResult(result, place, session.view));
    if (result.outcome !== "failed") continue;
    if (session.exitCode === 0) session.exitCode = result.failure.exitCode;
    // A retryable failure is not specific to this task: the others would fail in the same way.
    if (result.failure.body.retryable) break;
  }
  session.notice(retrySummary(results, tasks.length));
}

function listTasks(session: Session, tasks: readonly Task[], skipped: readonly Task[]): void {
  if (session.json) for (const task of [...tasks, ...skipped]) session.line(blockedData(task), () => "");
  else session.line(null, () => renderBlocked(tasks, skipped, session));
}

/** Reads all pages, in the order of the task ids. */
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

/** Throws UsageError if there is no terminal, or if the answer is no. */
async function requireConfirmation(session: Session, count: number, { reset }: BlockedRetry): Promise<void> {
  if (!session.interactive) {
    throw new UsageError(
      "there is no terminal to ask for a confirmation",
      "List the tasks with --dry-run, then give --yes.",
    );
  }
  const { isConfirmed } = await import("../../runtime/prompts.ts");
  const budget = reset ? " with the whole budget" : "";
  if (await isConfirmed(`Retry ${count === 1 ? "this task" : `these ${count} tasks`}${budget}?`)) return;
  throw new UsageError("nothing was changed", "You did not confirm.");
}

/** Reads the task again: since the list was made, another operator may have handled it. */
async function retryTask(
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
