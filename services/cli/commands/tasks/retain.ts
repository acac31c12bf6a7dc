// `fleet task retain`: changes what is kept of a task.

import { type Command, Option } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

interface Flags {
  readonly policy?: string;
  readonly hold?: string;
  readonly release?: string;
  readonly reason?: string;
  readonly case?: string;
}

/** The name that removes the task's own policy. */
const SETTINGS = "settings";

export function addTaskRetain(group: Command, action: ActionFactory): void {
  const command = group
    .command("retain")
    .summary("Change what is kept of a task.")
    .description(
      "Change what is kept of a task: the retention policy of its new checkpoints, and holds. While a task has a hold, nothing of it is removed. Holds are a right of their own.",
    )
    .argument("<task>", "the task")
    .addOption(
      new Option(
        "--policy <policy>",
        `of new checkpoints that name none: working, short, standard, regulated, permanent, a duration such as P30D, or ${SETTINGS}`,
      ),
    )
    .option("--hold <name>", "place a hold under this name, such as that of a case")
    .option("--release <name>", "release the hold of this name")
    .option("--reason <code>", "why the hold is placed or released, such as litigation; for the audit trail")
    .option("--case <reference>", "such as the number of the case; for the audit trail")
    .action(action(retain));
  withExamples(command, (fleet) => ({
    "Keep everything until the case is closed": `${fleet} task retain auth --hold case-17 --reason litigation`,
    "The case is closed": `${fleet} task retain auth --release case-17`,
    "Keep new checkpoints for six years": `${fleet} task retain auth --policy P6Y`,
  }));
}

async function retain(session: Session, task: string, flags: Flags): Promise<void> {
  const { policy, hold, release, reason, case: caseReference } = flags;
  const isOfHold = hold !== undefined || release !== undefined;
  if (policy === undefined && !isOfHold) {
    throw new UsageError("there is nothing to change", "Give --policy, --hold or --release.");
  }
  if (!isOfHold && (reason !== undefined || caseReference !== undefined)) {
    throw new UsageError("a reason and a case belong to a hold", "Give --hold or --release.");
  }
  const { retention } = (await session.client()).admin;
  const held = isOfHold
    ? await retention.hold(task, { ...session.deadline, hold, release, reason, caseReference })
    : undefined;
  const changed =
    policy === undefined
      ? held
      : await retention.retain(task, policy === SETTINGS ? null : policy, session.deadline);
  if (changed === undefined) return;
  const { retentionText } = await import("../../rendering/operations/task.ts");
  const { retentionPolicy, holds, taskId } = changed;
  await session.show(changed, () => `Task ${taskId}: ${retentionText({ policy: retentionPolicy, holds })}`);
}
