// `fleet handoff cancel`: cancels the open handoff of a task.

import { type Command, Option } from "commander";
import { COMMAND_ID } from "../../input/call-options.ts";
import { bareId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly reason?: string;
  readonly fence?: number;
  readonly commandId?: string;
  readonly quiet?: boolean;
}

export function addHandoffCancel(group: Command, action: ActionFactory): void {
  const command = group
    .command("cancel")
    .summary("Cancel the open handoff of a task.")
    .description(
      "Cancel the open handoff of a task, if no agent has accepted it yet; the owner keeps the task. If the task lost its owner to a failure, it is " +
        "blocked, and operators are alerted, because no agent would continue it.",
    )
    .argument("<task>", "the task")
    .option("--reason <text>", "the reason, for the audit trail")
    .addOption(new Option("--fence <n>", "the fence under which you own the task").argParser(wholeNumber(0)))
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .option("-q, --quiet", "print only the handoff's id")
    .action(action(cancel));
  withExamples(command, (fleet) => ({
    "The work is not done yet": `${fleet} handoff cancel auth --reason "one more test first"`,
  }));
}

async function cancel(session: Session, task: string, flags: Flags): Promise<void> {
  const client = await session.client();
  const { commandId, fence, reason } = flags;
  const asked = client.cancelHandoff(task, {
    ...session.deadline,
    commandId,
    fence,
    ...(reason !== undefined && { reason }),
  });
  const cancelled = await asked.catch(async (error: unknown) => {
    throw fence === undefined ? await withoutHandoff(session, task, error) : error;
  });
  // The handoff is cancelled already, so a failure to read the task is not a failure of the command.
  const head = await client.getTask(task, session.deadline).catch(() => null);
  const { cancelledData, renderCancelled } = await import("../../rendering/handoff/outcome.ts");
  await session.show(cancelledData(cancelled, head), () =>
    flags.quiet ? cancelled.handoffId : renderCancelled(cancelled, head, session.programName, session.view),
  );
}

/** The fleet checks the fence of an owned task first. If no handoff is open, that is the more helpful answer. */
async function withoutHandoff(session: Session, taskId: string, error: unknown): Promise<unknown> {
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  if (!(error instanceof FleetError) || error.code !== "FENCED") return error;
  const client = await session.client();
  const head = await client.getTask(taskId, session.deadline).catch(() => null);
  if (head === null || head.handoff_id !== null) return error;
  return new FleetError("CONFLICT", "no handoff of this task is open", { details: { task_id: taskId } });
}
