// `fleet recovery run` and `reset`: another attempt for one task, or for all blocked tasks.

import { type Command, Option } from "commander";
import { COMMAND_ID } from "../../input/call-options.ts";
import { bareId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

interface Flags {
  readonly blocked?: boolean;
  readonly agentType?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly reason?: string;
  readonly commandId?: string;
}

export function addRetries(group: Command, action: ActionFactory): void {
  const bulk =
    "With --blocked, retry all blocked tasks, one after the other. Tasks without a checkpoint are left out, because they need one first. The tasks are " +
    "listed first, and at a terminal you are asked for a confirmation. With --json, one line is printed for each task. The exit code is 0, or that of " +
    "the first failure. If the fleet does not answer, the remaining tasks are not retried.";
  const addRetry = (name: string, summary: string, description: string, reset: boolean): Command =>
    group
      .command(name)
      .summary(summary)
      .description(`${description}\n${bulk}`)
      .argument("[task]", "the task (else --blocked)")
      .option("--reason <text>", "the reason, for the next agent and the audit trail")
      .option("--blocked", "retry all blocked tasks")
      .option("--agent-type <type>", "with --blocked: only those whose agent was of this type")
      .option("--dry-run", "with --blocked: only list the tasks")
      .option("-y, --yes", "with --blocked: do not ask for a confirmation")
      .addOption(new Option("--command-id <uuid>", COMMAND_ID).argParser(bareId).conflicts("blocked"))
      .action(
        action((session: Session, task: string | undefined, flags: Flags) =>
          retry(session, task, flags, reset),
        ),
      );
  withExamples(
    addRetry(
      "reset",
      "Restore a task's budget of attempts, and retry it.",
      "Restore a task's whole budget of attempts, and retry it at once. Fix the cause of the block first.",
      true,
    ),
    (fleet) => ({
      "The cause is fixed": `${fleet} recovery reset auth --reason "the key is renewed"`,
      "It blocked many tasks": `${fleet} recovery reset --blocked --reason "the key is renewed"`,
    }),
  );
  withExamples(
    addRetry(
      "run",
      "Make the next attempt now, before it is due.",
      "Make the next attempt now, before it is due. It counts like any other attempt.",
      false,
    ),
    (fleet) => ({
      "The next attempt of one task": `${fleet} recovery run auth`,
      "List the blocked tasks of qa agents": `${fleet} recovery run --blocked --agent-type qa --dry-run`,
    }),
  );
}

async function retry(
  session: Session,
  task: string | undefined,
  flags: Flags,
  reset: boolean,
): Promise<void> {
  const { blocked, agentType, dryRun, yes, reason } = flags;
  if ((task === undefined) !== (blocked === true)) {
    throw new UsageError(
      task === undefined ? "a task is missing" : "--blocked does not apply to one task",
      "Name a task, or give --blocked for all blocked tasks.",
    );
  }
  if (task !== undefined) {
    const unrelated = [agentType && "--agent-type", dryRun && "--dry-run", yes && "--yes"].find(Boolean);
    if (unrelated)
      throw new UsageError(`${unrelated} does not apply to one task`, hintOn(session, task, unrelated));
    return retryOne(session, task, flags, reset);
  }
  const { retryBlocked } = await import("./retry-blocked.ts");
  await retryBlocked(session, {
    agentType,
    dryRun: dryRun === true,
    isConfirmed: yes === true,
    reason,
    reset,
  });
}

async function retryOne(
  session: Session,
  taskId: string,
  { reason, commandId }: Flags,
  reset: boolean,
): Promise<void> {
  const client = await session.client();
  const task = await client.getTask(taskId, session.deadline);
  // A call that repeats its command id receives its first answer again.
  if (commandId === undefined && task?.recovery?.state === "attempted" && task.handoff_id !== null) {
    const { FleetError } = await import("../../../../shared/protocol/errors.ts");
    throw new FleetError("CONFLICT", "an attempt is in progress", {
      details: { handoff_id: task.handoff_id },
    });
  }
  const { requestRecovery } = await import("./request-recovery.ts");
  await requestRecovery(session, { taskId, checkpointId: null, options: { commandId, reason, reset } }, task);
}

/** --dry-run must not be dropped: without it, the task would be retried. */
function hintOn(session: Session, task: string, option: string): string {
  return option === "--dry-run"
    ? `\`${session.programName} recovery start ${task} --dry-run\` shows the effect of a recovery.`
    : `Leave out ${option}.`;
}
