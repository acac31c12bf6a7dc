// `fleet events`: prints events as they are published. Each describes a committed transition.

import type { Command } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { untilInterrupted } from "../../runtime/sigint.ts";

export function addEvents(program: Command, action: ActionFactory): void {
  const command = program
    .command("events")
    .summary("Print events as they are published.")
    .description(
      "Print events as they are published, until Ctrl-C. With --json, print one CloudEvent on each line.",
    )
    .option("-t, --task <id>", "only those of this task")
    .action(action(follow));
  withExamples(command, (fleet) => ({
    "The events of one task": `${fleet} events --task auth`,
    "For another program": `${fleet} events --json | jq -c '{type, subject}'`,
  }));
}

async function follow(session: Session, { task }: { readonly task?: string }): Promise<void> {
  const { renderEvent } = await import("../../rendering/operations/event.ts");
  const client = await session.client();
  const interrupted = untilInterrupted();
  const stop = await client.onEvent(
    (event) => session.line(event, () => renderEvent(event, session.view)),
    task === undefined ? {} : { taskId: task },
  );
  // Printed for programs as well: they receive every event from here on.
  session.notice(`Following ${task === undefined ? "all events" : `task ${task}`}; Ctrl-C ends.`);
  await interrupted;
  await stop();
}
