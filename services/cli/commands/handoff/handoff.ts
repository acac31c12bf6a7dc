// `fleet handoff`: hand a task over to the next agent, or take that back.

import { type Command, Option } from "commander";
import { bareId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

/** The protocol's own list comes with its schemas, which take longer to load than help may take. */
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
      "Hand a task over to the next agent: its newest checkpoint is verified and offered to agents of the next type, of whom the first " +
        "to take it owns the task from then on. Nobody need wait for it; `handoffs show` tells how it goes.\n" +
        "With --cancel the open handoff is taken back, and the task stays with whoever has it. Where nobody has it since its agent failed, nothing " +
        "brings it on any more: it is blocked, and people are alerted.",
    )
    .argument("<task>", "the task")
    .option("--to <type>", "the type of agent (else the policy decides: the same type, or the next phase's)")
    .addOption(new Option("--next-phase <phase>", "the phase in which the task goes on").choices(NEXT_PHASES))
    .option("--checkpoint <id>", "of this checkpoint (else the newest)", bareId)
    .option("--cancel", "take the task's open handoff back, while nobody has accepted it")
    .option("--reason <text>", "why, for the next agent and the audit trail")
    .addOption(new Option("--fence <n>", "the fence under which you own the task").argParser(wholeNumber(0)))
    .option("--command-id <uuid>", "a UUIDv7 of yours; the same one again repeats nothing", bareId)
    .option("-q, --quiet", "print only the handoff's id")
    .action(action(handoff));
  withExamples(command, (fleet) => ({
    "To whoever the policy says": `${fleet} handoff auth --fence 3 --reason "context is full"`,
    "To the testers": `${fleet} handoff auth --next-phase testing`,
    "To a type by name, in a script": `ID=$(${fleet} handoff auth --to qa -q) && ${fleet} handoffs show $ID`,
    "Not after all": `${fleet} handoff auth --cancel --reason "one more test first"`,
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
  const { outcomeData } = await import("../../rendering/checkpoints/outcome.ts");
  const { renderHandedOff } = await import("../../rendering/handoff/handoff.ts");
  const told = { outcome, fleet: session.programName };
  await session.show(outcomeData(outcome), () =>
    flags.quiet ? outcome.handoffId : renderHandedOff(told, session.view),
  );
}

async function cancel(session: Session, task: string, flags: Flags): Promise<void> {
  const of = { to: "--to", nextPhase: "--next-phase", checkpoint: "--checkpoint" } as const;
  for (const [name, option] of Object.entries(of) as [keyof typeof of, string][]) {
    if (flags[name] === undefined) continue;
    throw new UsageError(
      `${option} says nothing about a handoff that is taken back`,
      `Leave ${option} or --cancel out.`,
    );
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
  // It is taken back; that nobody can say what became of the task is no failure of it.
  const head = await client.getTask(task, session.deadline).catch(() => null);
  const { cancelledData, renderCancelled } = await import("../../rendering/handoff/handoff.ts");
  await session.show(cancelledData(cancelled, head), () =>
    flags.quiet ? cancelled.handoffId : renderCancelled(cancelled, head, session.programName, session.view),
  );
}

/** Of a task with an owner the fleet asks for the fence first; that there is nothing to take back is the better answer. */
async function withoutHandoff(session: Session, taskId: string, error: unknown): Promise<unknown> {
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  if (!(error instanceof FleetError) || error.code !== "FENCED") return error;
  const client = await session.client();
  const head = await client.getTask(taskId, session.deadline).catch(() => null);
  if (head === null || head.handoff_id !== null) return error;
  return new FleetError("CONFLICT", "no handoff of this task is open", { details: { task_id: taskId } });
}
