// `fleet task show`: a task's state, owner and latest checkpoint.

import type { Command } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

export function addTask(program: Command, action: ActionFactory): void {
  const group = program.command("task").description("Look at tasks.");
  const command = group
    .command("show")
    .description("Show a task's state, its owner and fence, and its latest checkpoint.")
    .argument("<task>", "the task")
    .action(action(show));
  withExamples(command, (fleet) => ({ "Who owns it": `${fleet} task show auth --json | jq .owner` }));
}

async function show(session: Session, id: string): Promise<void> {
  const { requireTask } = await import("../../runtime/existing-task.ts");
  const task = await requireTask(session, id);
  const { renderTask } = await import("../../rendering/operations/task.ts");
  await session.show(task, () => renderTask(task, session.view));
}
