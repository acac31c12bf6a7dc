// `fleet recovery run` and `reset`: another attempt, for one task or for all that are blocked.

import { type Command, Option } from "commander";
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
    "With --blocked: of every task that waits for a person, one after the other; those without a checkpoint are left out, since they need one " +
    "first. What will be done is shown first, and a person at a terminal is asked. With --json there is one line for each task. The exit code is 0, " +
    "or that of the first task that failed; when the fleet does not answer, the others are not tried.";
  const retrying = (name: string, summary: string, description: string, reset: boolean): Command =>
    group
      .command(name)
      .summary(summary)
      .description(`${description}\n${bulk}`)
      .argument("[task]", "the task (else --blocked)")
      .option("--reason <text>", "why, for the next agent and the audit trail")
      .option("--blocked", "all tasks that are blocked, instead of one")
      .option("--agent-type <type>", "with --blocked: only those whose agent was of this type")
      .option("--dry-run", "with --blocked: only show which tasks those are")
      .option("-y, --yes", "with --blocked: ask nobody")
      .addOption(
        new Option("--command-id <uuid>", "a UUIDv7 of yours; the same one again repeats nothing")
          .argParser(bareId)
          .conflicts("blocked"),
      )
      .action(
        action((session: Session, task: string | undefined, flags: Flags) =>
          retry(session, task, flags, reset),
        ),
      );
  withExamples(
    retrying(
      "reset",
      "Give a task its whole budget of attempts back, and try again.",
      "Give a task its whole budget of attempts back, and try again at once. For a task that is blocked: mend the cause first.",
      true,
    ),
    (fleet) => ({
      "The cause is mended": `${fleet} recovery reset auth --reason "the key is renewed"`,
      "It was the cause of many": `${fleet} recovery reset --blocked --reason "the key is renewed"`,
    }),
  );
  withExamples(
    retrying(
      "run",
      "Make the next attempt now, without waiting for its time.",
      "Make the next attempt now, without waiting for its time. It counts like any other.",
      false,
    ),
    (fleet) => ({
      "Now, not in ten minutes": `${fleet} recovery run auth`,
      "Which tasks wait for a qa agent": `${fleet} recovery run --blocked --agent-type qa --dry-run`,
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
      task === undefined ? "no task is named" : "one task is named, and --blocked means all",
      "Name a task, or give --blocked for all that wait for a person.",
    );
  }
  if (task !== undefined) {
    const strange = [agentType && "--agent-type", dryRun && "--dry-run", yes && "--yes"].find(Boolean);
    if (strange)
      throw new UsageError(`${strange} says nothing about one task`, remedyOf(session, task, strange));
    return retryOne(session, task, flags, reset);
  }
  const { retryBlocked } = await import("./retry-blocked.ts");
  await retryBlocked(session, { agentType, dryRun: dryRun === true, sure: yes === true, reason, reset });
}

async function retryOne(
  session: Session,
  taskId: string,
  { reason, commandId }: Flags,
  reset: boolean,
): Promise<void> {
  const client = await session.client();
  const task = await client.getTask(taskId, session.deadline);
  // A retry under the same id gets its first answer.
  if (commandId === undefined && task?.recovery?.state === "attempted" && task.handoff_id !== null) {
    const { FleetError } = await import("../../../../shared/protocol/errors.ts");
    throw new FleetError("CONFLICT", "an attempt is being made", {
      details: { handoff_id: task.handoff_id },
    });
  }
  const { requestRecovery } = await import("./request-recovery.ts");
  await requestRecovery(session, { taskId, checkpointId: null, wish: { commandId, reason, reset } }, task);
}

/** Without --dry-run it would be done. */
function remedyOf(session: Session, task: string, option: string): string {
  return option === "--dry-run"
    ? `\`${session.programName} recover ${task} --dry-run\` shows from where it would go on, and with whom.`
    : `Leave ${option} out.`;
}
