// `fleet fork`: begins a new task with the state of a checkpoint of another task.

import type { Command } from "commander";
import type { CommittedOutcome } from "../../../../shared/sdk/client/outcome.ts";
import { COMMAND_ID } from "../../input/call-options.ts";
import { bareId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { showOutcome } from "../../runtime/show-outcome.ts";

interface Flags {
  readonly from?: string;
  readonly as?: string;
  readonly type?: string;
  readonly goal?: string;
  readonly note?: string;
  readonly commandId?: string;
  readonly quiet?: boolean;
}

const TASK_CHARS_MAX = 64;

export function addFork(program: Command, action: ActionFactory): void {
  const command = program
    .command("fork")
    .summary("Begin a new task with the state of a checkpoint of another task.")
    .description(
      "Begin a new task with the state of a checkpoint of another task, such as to try another way from an earlier point. The other " +
        "task does not change: it keeps its owner and its fence. Both audit trails record the fork.",
    )
    .argument("<task>", "the task to fork, in any state")
    .option("--from <checkpoint>", "the checkpoint to begin with (default: the newest sound one)", bareId)
    .option("--as <task>", "the id of the new task (default: the old id with -fork- and a number)")
    .option("--type <type>", "the agent type of the new task (default: that of the checkpoint)")
    .option("--goal <text>", "another goal")
    .option("-n, --note <text>", "why the task is forked")
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .option("-q, --quiet", "print only the id of the new checkpoint")
    .action(action(fork));
  withExamples(command, (fleet) => ({
    "Try another way from the newest checkpoint": `${fleet} fork auth --as auth-oauth --note "try OAuth"`,
    "Go back to an earlier checkpoint": `${fleet} fork auth --from chk-0199…`,
    "In a script": `TASK=$(${fleet} fork auth --json | jq -r .task_id)`,
  }));
}

async function fork(session: Session, task: string, flags: Flags): Promise<void> {
  const { newCommandId } = await import("../../../../shared/sdk/sdk.ts");
  const commandId = flags.commandId ?? newCommandId();
  const client = await session.client();
  const outcome = await client.task(task).fork(flags.as ?? nameOf(task, commandId), {
    ...session.deadline,
    commandId,
    ...{ from: flags.from, agentType: flags.type, goal: flags.goal, note: flags.note },
  });
  await showOutcome(session, outcome, {
    done: "Task forked",
    quiet: flags.quiet,
    more: await nextSteps(outcome, session.programName),
  });
}

/** A retry with the same command id has the same name. */
function nameOf(task: string, commandId: string): string {
  const end = `-fork-${commandId.slice(-8)}`;
  return `${task.slice(0, TASK_CHARS_MAX - end.length)}${end}`;
}

async function nextSteps({ taskId, forkedFrom }: CommittedOutcome, fleet: string): Promise<string[]> {
  const { shownId } = await import("../../rendering/terminal/text.ts");
  return [
    ...(forkedFrom === undefined
      ? []
      : [
          `From: ${shownId(forkedFrom.checkpoint_id)}, version ${forkedFrom.version}, of task ${forkedFrom.task_id}`,
        ]),
    `The new task has no owner. Continue it: ${fleet} fence take ${taskId}, then ${fleet} resume ${taskId}`,
  ];
}
