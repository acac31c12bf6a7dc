// `fleet checkpoint link`: adds a parent to a checkpoint.

import type { Command } from "commander";
import { addCallOptions, type CallFlags, callOptions } from "../../input/call-options.ts";
import { checkpointId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { showOutcome } from "../../runtime/show-outcome.ts";

interface Flags extends CallFlags {
  readonly task?: string;
}

export function addLink(group: Command, action: ActionFactory): void {
  const command = group
    .command("link")
    .description("Add a parent to a checkpoint of the same task.")
    .argument("<parent>", "the parent checkpoint", checkpointId)
    .argument("<child>", "the checkpoint that gets the parent", checkpointId)
    .option("-t, --task <id>", "their task, which saves a look-up");
  addCallOptions(command, "the child has this version").action(action(link));
  withExamples(command, (fleet) => ({
    "Join two lines of work": `${fleet} checkpoint link chk-0199…a chk-0199…b`,
  }));
}

async function link(session: Session, parent: string, child: string, flags: Flags): Promise<void> {
  const client = await session.client();
  const outcome = await client.linkCheckpoints(parent, child, {
    ...callOptions(session, flags),
    taskId: flags.task,
  });
  const { shownId } = await import("../../rendering/terminal/text.ts");
  await showOutcome(session, outcome, {
    done: "Checkpoint linked",
    quiet: flags.quiet,
    more: [`Parent: ${shownId(parent)}`],
  });
}
