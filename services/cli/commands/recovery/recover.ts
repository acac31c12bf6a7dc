// `fleet recover`: have a task recovered from where a person wants it, or see first what that would do.

import { type Command, Option } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { bareId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly from?: string;
  readonly to?: string;
  readonly reason?: string;
  readonly force?: boolean;
  readonly dryRun?: boolean;
  readonly commandId?: string;
}

const { NOT_FOUND, CONFLICT, CORRUPT, INVALID } = ERROR_TABLE;

export function addRecover(program: Command, action: ActionFactory): void {
  const command = program
    .command("recover")
    .summary("Have a task go on with another agent, from its last sound checkpoint.")
    .description(
      "Have a task go on with another agent, from its newest checkpoint that verifies (the one before, if that was tried in vain) or from one that you " +
        "choose. Whoever has the task loses it at once and can no longer write to it; an agent that lives keeps it, unless you force it. An offer " +
        "that is open comes to nothing; if it was an attempt at recovery, it counts.\n" +
        "With --dry-run nothing is changed; which agents of the type are there is shown, and the exit code says how it would go: " +
        `0 it goes on, or waits for an agent, ${NOT_FOUND.exit} there is no checkpoint, ${CONFLICT.exit} it would be refused, ` +
        `${CORRUPT.exit} nothing sound can be reached, ${INVALID.exit} there is no such type of agent.`,
    )
    .argument("<task>", "the task")
    .option("--from <id>", "go on from this checkpoint (else the policy chooses)", bareId)
    .option("--to <type>", "the type of agent that goes on (else as the agent before)")
    .option("--reason <text>", "why, for the next agent and the audit trail")
    .option("--force", "although its agent lives")
    .addOption(
      new Option("--dry-run", "say what it would do: from where, who would lose the task").conflicts([
        "commandId",
      ]),
    )
    .option("--command-id <uuid>", "a UUIDv7 of yours; the same one again repeats nothing", bareId)
    .action(action(recover));
  withExamples(command, (fleet) => ({
    "What would it do": `${fleet} recover auth --dry-run`,
    "The agent hangs, and its heart beats on": `${fleet} recover auth --force --reason "it goes in circles"`,
    "From an earlier checkpoint": `${fleet} recover auth --from chk-019bef72-3d00-7a31-b5c4-0d6e2f9a1b01`,
  }));
}

async function recover(session: Session, taskId: string, flags: Flags): Promise<void> {
  if (flags.dryRun) return lookAhead(session, taskId, flags);
  const { from, to: toAgentType, reason, force, commandId } = flags;
  const { requestRecovery } = await import("./request-recovery.ts");
  const wish = { toAgentType, reason, force, commandId };
  await requestRecovery(session, { taskId, checkpointId: from ?? null, wish });
}

/** The same judgements as the fleet makes, a moment earlier. */
async function lookAhead(session: Session, taskId: string, flags: Flags): Promise<void> {
  const client = await session.client();
  const { requireTask } = await import("../../runtime/existing-task.ts");
  const task = await requireTask(session, taskId);
  const { recovery } = task;
  const onPrevious = flags.from === undefined && recovery?.rung === "previous";
  const point = await client.admin.recoveryPoint(taskId, {
    ...session.deadline,
    checkpointId: flags.from,
    before: onPrevious ? (recovery?.avoid_id ?? undefined) : undefined,
    toAgentType: flags.to,
  });
  const { presenceOf } = await import("./agent-presence.ts");
  const presence = point.offer && (await presenceOf(session, client, point.offer.agent_type));
  const { dryRunOf, renderDryRun } = await import("../../rendering/recovery/recovery-preview.ts");
  const preview = dryRunOf(task, point, { force: flags.force, presence });
  session.exitCode = preview.refused === null ? 0 : ERROR_TABLE[preview.refused.code].exit;
  await session.show(preview, () => renderDryRun(preview, session.view));
}
