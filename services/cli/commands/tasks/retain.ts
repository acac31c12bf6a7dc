// `fleet task retain`: changes what is kept of a task.

import { type Command, Option } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

interface Flags {
  readonly policy?: string;
  readonly hold?: string;
  readonly release?: string;
}

/** The name that removes the task's own policy. */
const SETTINGS = "settings";

export function addTaskRetain(group: Command, action: ActionFactory): void {
  const command = group
    .command("retain")
    .summary("Change what is kept of a task.")
    .description(
      "Change what is kept of a task: the retention policy of its new checkpoints, and holds. While a task has a hold, nothing of it is removed.",
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
    .action(action(retain));
  withExamples(command, (fleet) => ({
    "Keep everything until the case is closed": `${fleet} task retain auth --hold case-17`,
    "The case is closed": `${fleet} task retain auth --release case-17`,
    "Keep new checkpoints for six years": `${fleet} task retain auth --policy P6Y`,
  }));
}

async function retain(session: Session, task: string, { policy, hold, release }: Flags): Promise<void> {
  if (policy === undefined && hold === undefined && release === undefined) {
    throw new UsageError("there is nothing to change", "Give --policy, --hold or --release.");
  }
  const client = await session.client();
  const changed = await client.admin.retention.retain(task, {
    ...session.deadline,
    policy: policy === SETTINGS ? null : policy,
    hold,
    release,
  });
  const { retentionText } = await import("../../rendering/operations/task.ts");
  const { retentionPolicy, holds, taskId } = changed;
  await session.show(changed, () => `Task ${taskId}: ${retentionText({ policy: retentionPolicy, holds })}`);
}
