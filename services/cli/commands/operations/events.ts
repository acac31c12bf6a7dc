// `fleet events`: what happens, as it happens. Every line is a fact that was committed before.

import type { Command } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { untilInterrupted } from "../../runtime/sigint.ts";

export function addEvents(program: Command, action: ActionFactory): void {
  const command = program
    .command("events")
    .summary("Follow events as they come.")
    .description("Follow events until Ctrl-C; --json prints one CloudEvent on each line.")
    .option("-t, --task <id>", "of this task only")
    .action(action(follow));
  withExamples(command, (fleet) => ({
    "Of one task": `${fleet} events --task auth`,
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
  // Also told to a program: from here on it misses nothing.
  session.notice(`Following ${task === undefined ? "all events" : `task ${task}`}; Ctrl-C ends.`);
  await interrupted;
  await stop();
}
