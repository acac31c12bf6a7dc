// `fleet handoff create`: hands a task over to the next agent.

import { type Command, Option } from "commander";
import { COMMAND_ID } from "../../input/call-options.ts";
import { bareId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { askForFreshCheckpoint, NO_FRESH } from "./fresh-checkpoint.ts";

/** The protocol's own list comes with its schemas, which would make the help slow. */
const NEXT_PHASES = ["planning", "implementing", "testing", "reviewing", "complete"] as const;

interface Flags {
  readonly to?: string;
  readonly nextPhase?: (typeof NEXT_PHASES)[number];
  readonly checkpoint?: string;
  readonly reason?: string;
  readonly fence?: number;
  readonly commandId?: string;
  readonly quiet?: boolean;
  readonly freshCheckpoint: boolean;
}

export function addHandoffCreate(group: Command, action: ActionFactory): void {
  const command = group
    .command("create")
    .summary("Hand a task over to the next agent.")
    .description(
      "Hand a task over to the next agent: its newest checkpoint is verified and offered to agents of the next type. The first one " +
        "that accepts owns the task from then on. The command does not wait for it; `handoff show` shows the progress.",
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
    .option("--reason <text>", "the reason, for the next agent and the audit trail")
    .addOption(new Option("--fence <n>", "the fence under which you own the task").argParser(wholeNumber(0)))
    .option("--no-fresh-checkpoint", NO_FRESH)
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .option("-q, --quiet", "print only the handoff's id")
    .action(action(handoff));
  withExamples(command, (fleet) => ({
    "To the agent type that the policy names": `${fleet} handoff create auth --fence 3 --reason "context is full"`,
    "To the agents of the next phase": `${fleet} handoff create auth --next-phase testing`,
    "To one agent type, in a script": `ID=$(${fleet} handoff create auth --to qa -q) && ${fleet} handoff show $ID`,
  }));
}

async function handoff(session: Session, task: string, flags: Flags): Promise<void> {
  const client = await session.client();
  const { commandId, fence, to: toAgentType, nextPhase, reason } = flags;
  if (flags.freshCheckpoint && flags.checkpoint === undefined)
    await askForFreshCheckpoint(session, client, task);
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
