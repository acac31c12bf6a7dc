// `fleet handoff`: hands a task over to the next agent, or cancels the open handoff.

import { type Command, Option } from "commander";
import { COMMAND_ID } from "../../input/call-options.ts";
import { bareId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

/** The protocol's own list comes with its schemas, which would make the help slow. */
const NEXT_PHASES = ["planning", "implementing", "testing", "reviewing", "complete"] as const;

interface Flags {
  readonly to?: string;
  readonly nextPhase?: (typeof NEXT_PHASES)[number];
  readonly checkpoint?: string;
  readonly cancel?: boolean;
  readonly reason?: string;
  readonly fence?: number;
  readonly commandId?: string;
  readonly quiet?: boolean;
}

export function addHandoff(program: Command, action: ActionFactory): void {
  const command = program
    .command("handoff")
    .summary("Hand a task over to the next agent.")
    .description(
      "Hand a task over to the next agent: its newest checkpoint is verified and offered to agents of the next type. The first one " +
        "that accepts owns the task from then on. The command does not wait for it; `handoffs show` shows the progress.\n" +
        "With --cancel, the open handoff is cancelled and the owner keeps the task. If the task lost its owner to a failure, it is " +
        "blocked, and operators are alerted, because no agent would continue it.",
    )
    .argument("<task>", "the task")
    .option(
      "--to <type>",
      "the next agent type (else by the policy: the same type, or that of the next phase)",
    )
    .addOption(
      new Option("--next-phase <phase>", "the phase in which the task continues").choices(NEXT_PHASES),
    )
    .option("--checkpoint <id>", "hand over this checkpoint (else the newest)", bareId)
    .option("--cancel", "cancel the task's open handoff, if no agent has accepted it yet")
    .option("--reason <text>", "the reason, for the next agent and the audit trail")
    .addOption(new Option("--fence <n>", "the fence under which you own the task").argParser(wholeNumber(0)))
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .option("-q, --quiet", "print only the handoff's id")
    .action(action(handoff));
  withExamples(command, (fleet) => ({
    "To the agent type that the policy names": `${fleet} handoff auth --fence 3 --reason "context is full"`,
    "To the agents of the next phase": `${fleet} handoff auth --next-phase testing`,
    "To one agent type, in a script": `ID=$(${fleet} handoff auth --to qa -q) && ${fleet} handoffs show $ID`,
    "Cancel the handoff": `${fleet} handoff auth --cancel --reason "one more test first"`,
  }));
}

async function handoff(session: Session, task: string, flags: Flags): Promise<void> {
  if (flags.cancel) return cancel(session, task, flags);
  const client = await session.client();
  const { commandId, fence, to: toAgentType, nextPhase, reason } = flags;
  const outcome = await client.initiateHandoff(flags.checkpoint ?? null, {
    ...session.deadline,
    taskId: task,
    commandId,
    fence,
    ...(toAgentType !== undefined && { toAgentType }),
    ...(nextPhase !== undefined && { nextPhase }),
    ...(reason !== undefined && { reason }),
  });
  const { handedOffData, renderHandedOff } = await import("../../rendering/handoff/outcome.ts");
  // The handoff is requested already, so a failure to read it is not a failure of the command.
  const requested =
    outcome.outcome !== "committed" || (flags.quiet && !session.json)
      ? null
      : await client.handoff(outcome.handoffId, session.deadline).catch(() => null);
  await session.show(handedOffData(outcome, requested), () =>
    flags.quiet ? outcome.handoffId : renderHandedOff(outcome, requested, session.programName, session.view),
  );
}

async function cancel(session: Session, task: string, flags: Flags): Promise<void> {
  const others = { to: "--to", nextPhase: "--next-phase", checkpoint: "--checkpoint" } as const;
  for (const [name, option] of Object.entries(others) as [keyof typeof others, string][]) {
    if (flags[name] === undefined) continue;
    throw new UsageError(`--cancel takes no ${option}`, `Leave out ${option} or --cancel.`);
  }
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
