// `fleet task`: lists and shows tasks, with one file for the list.

import type { Command } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { addTaskHolds } from "./holds.ts";
import { addTaskRetain } from "./retain.ts";
import { addTaskShred } from "./shred.ts";
import { addTaskList } from "./task-list.ts";

export function addTask(program: Command, action: ActionFactory): void {
  const group = program.command("task").description("List and show tasks, and change what is kept of them.");
  addTaskList(group, action);
  addTaskRetain(group, action);
  addTaskHolds(group, action);
  addTaskShred(group, action);
  const command = group
    .command("show")
    .description("Show a task's state, its owner and fence, and its latest checkpoint.")
    .argument("<task>", "the task")
    .action(action(show));
  withExamples(command, (fleet) => ({ "The owner of a task": `${fleet} task show auth --json | jq .owner` }));
}

async function show(session: Session, id: string): Promise<void> {
  const { requireTask } = await import("../../runtime/existing-task.ts");
  const task = await requireTask(session, id);
  const { renderTask } = await import("../../rendering/operations/task.ts");
  const { besideMember, signaturesOfNamed } = await import("../esign/shown-signatures.ts");
  const { latest_id, last_successful_id } = task;
  const signatures = await signaturesOfNamed(session, id, [latest_id, last_successful_id]);
  await session.show({ ...task, ...besideMember(signatures) }, async () => {
    const { handoff_id: id } = task;
    const client = await session.client();
    const handoff = id === null ? null : await client.handoff(id, session.deadline).catch(() => null);
    return renderTask(task, session.view, { handoff, signatures });
  });
}
