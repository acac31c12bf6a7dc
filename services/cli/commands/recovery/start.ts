// `fleet recovery start`: starts a recovery at a checkpoint of the operator's choice, or shows its effect first.

import { type Command, Option } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { COMMAND_ID } from "../../input/call-options.ts";
import { bareId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { askForFreshCheckpoint, NO_FRESH } from "../handoff/fresh-checkpoint.ts";

interface Flags {
  readonly from?: string;
  readonly to?: string;
  readonly reason?: string;
  readonly force?: boolean;
  readonly dryRun?: boolean;
  readonly commandId?: string;
  readonly freshCheckpoint: boolean;
}

const { NOT_FOUND, CONFLICT, CORRUPT, INVALID } = ERROR_TABLE;

export function addRecoveryStart(group: Command, action: ActionFactory): void {
  const command = group
    .command("start")
    .summary("Recover a task: another agent continues it from a sound checkpoint.")
    .description(
      "Recover a task: another agent continues it from the newest sound checkpoint (the previous one, if that has been tried without progress) or " +
        "from one that you choose. The owner loses the task at once and can no longer write to it. An owner that is alive keeps the task, unless you " +
        "use --force. An open handoff is cancelled; if it was a recovery attempt, it counts.\n" +
        "With --dry-run, nothing is changed. The command shows the available agents, and its exit code is the result: " +
        `0 the task continues or waits for an agent; ${NOT_FOUND.exit} it has no checkpoint; ${CONFLICT.exit} the recovery would be refused; ` +
        `${CORRUPT.exit} no sound checkpoint can be reached; ${INVALID.exit} the agent type does not exist.`,
    )
    .argument("<task>", "the task")
    .option("--from <id>", "continue from this checkpoint (else the policy chooses)", bareId)
    .option("--to <type>", "the next agent type (else that of the previous agent)")
    .option("--reason <text>", "the reason, for the next agent and the audit trail")
    .option("--force", "take the task even if its owner is alive")
    .addOption(new Option("--dry-run", "show the effect, and change nothing").conflicts(["commandId"]))
    .option("--no-fresh-checkpoint", NO_FRESH)
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .action(action(recover));
  withExamples(command, (fleet) => ({
    "Show the effect first": `${fleet} recovery start auth --dry-run`,
    "The owner hangs, but still sends heartbeats": `${fleet} recovery start auth --force --reason "it goes in circles"`,
    "From an earlier checkpoint": `${fleet} recovery start auth --from chk-019bef72-3d00-7a31-b5c4-0d6e2f9a1b01`,
  }));
}

async function recover(session: Session, taskId: string, flags: Flags): Promise<void> {
  if (flags.dryRun) return dryRun(session, taskId, flags);
  const { from, to: toAgentType, reason, force, commandId } = flags;
  // Without --force an owner that is alive keeps the task.
  if (force && from === undefined && flags.freshCheckpoint)
    await askForFreshCheckpoint(session, await session.client(), taskId);
  const { requestRecovery } = await import("./request-recovery.ts");
  const options = { toAgentType, reason, force, commandId };
  await requestRecovery(session, { taskId, checkpointId: from ?? null, options });
}

/** Applies the rules of the fleet to the current state. */
async function dryRun(session: Session, taskId: string, flags: Flags): Promise<void> {
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
    force: flags.force,
  });
  const { presenceOf } = await import("./agent-presence.ts");
  const presence = point.offer && (await presenceOf(session, client, point.offer.agent_type));
  const { dryRunOf, renderDryRun } = await import("../../rendering/recovery/recovery-preview.ts");
  const preview = dryRunOf(task, point, presence);
  session.exitCode = preview.refused === null ? 0 : ERROR_TABLE[preview.refused.code].exit;
  const { besideMember, signaturesOf } = await import("../esign/shown-signatures.ts");
  const signatures = point.checkpoint === null ? [] : await signaturesOf(session, [point.checkpoint]);
  await session.show({ ...preview, ...besideMember(signatures) }, () =>
    renderDryRun(preview, session.view, signatures),
  );
}
