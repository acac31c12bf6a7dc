// `fleet checkpoint remove`: removes one checkpoint, if retention does not keep it.

import { type Command, Option } from "commander";
import { bareId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly task?: string;
  readonly keep?: number;
}

export function addRemove(group: Command, action: ActionFactory): void {
  const command = group
    .command("remove")
    .alias("rm")
    .summary("Remove one checkpoint.")
    .description(
      "Remove one checkpoint, of any age. Its hash and its audit entries stay. One that retention keeps is refused (5) with the reason: a hold, its policy, a recovery, an open handoff, an electronic signature, or that it is one of the newest.",
    )
    .argument("<id>", "the checkpoint", bareId)
    .option("-t, --task <id>", "its task, which saves a look-up")
    .addOption(
      new Option(
        "--keep <n>",
        "the number of newest checkpoints that stay (else as the settings say, by default 3)",
      ).argParser(wholeNumber(1)),
    )
    .action(action(remove));
  withExamples(command, (fleet) => ({
    "Remove one": `${fleet} checkpoint remove chk-0199…`,
    "One of the newest 3": `${fleet} checkpoint remove chk-0199… --keep 1`,
  }));
}

async function remove(session: Session, id: string, { task, keep }: Flags): Promise<void> {
  const client = await session.client();
  const removed = await client.admin.retention.remove(id, { ...session.deadline, taskId: task, keep });
  const { bytesText, plain, shownId } = await import("../../rendering/terminal/text.ts");
  const { checkpointId, taskId, seq, freedBytes } = removed;
  await session.show(
    removed,
    () =>
      `Checkpoint removed: ${shownId(checkpointId)}, number ${seq} of task ${plain(taskId)} (${bytesText(freedBytes)})`,
  );
}
