// `fleet recover`: have a task recovered from where a person wants it, or see first what that would do.

import { type Command, Option } from "commander";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { type Acting, withExamples } from "../acting.ts";
import { bareId } from "../input/id.ts";
import type { Session } from "../session.ts";

interface Flags {
  readonly from?: string;
  readonly to?: string;
  readonly reason?: string;
  readonly force?: boolean;
  readonly dryRun?: boolean;
  readonly commandId?: string;
}

const { NOT_FOUND, CONFLICT, CORRUPT } = ERROR_TABLE;

export function addRecover(program: Command, acting: Acting): void {
  const command = program
    .command("recover")
    .summary("Have a task go on with another agent, from its last sound checkpoint.")
    .description(
      "Have a task go on with another agent, from its newest checkpoint that verifies (the one before, if that was tried in vain) or from one that you " +
        "choose. Whoever has the task loses it at once and can no longer write to it; an agent that lives keeps it, unless you force it.\n" +
        "With --dry-run nothing is changed; whether an agent of the type says that it lives is shown, and the exit code says how it would go: " +
        `0 it goes on, or waits for an agent, ${NOT_FOUND.exit} there is no checkpoint, ` +
        `${CONFLICT.exit} it would be refused, ${CORRUPT.exit} nothing sound can be reached.`,
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
    .action(acting(recover));
  withExamples(command, (fleet) => ({
    "What would it do": `${fleet} recover auth --dry-run`,
    "The agent hangs, and its heart beats on": `${fleet} recover auth --force --reason "it goes in circles"`,
    "From an earlier checkpoint": `${fleet} recover auth --from chk-019bef72-3d00-7a31-b5c4-0d6e2f9a1b01`,
  }));
}

async function recover(session: Session, taskId: string, flags: Flags): Promise<void> {
  if (flags.dryRun) return lookAhead(session, taskId, flags);
  const client = await session.client();
  const { from, to: toAgentType, reason, force, commandId } = flags;
  const wish = { toAgentType, reason, force, commandId };
  const result = await client.executeRecovery(from ?? null, { ...session.ask, ...wish, taskId });
  const { renderRecovering, recoveringData } = await import("../rendering/recovery.ts");
  await session.show(recoveringData(result), () =>
    renderRecovering({ ...result, reset: false }, session.called, session.view),
  );
}

/** The same judgements as the fleet makes, a moment earlier. */
async function lookAhead(session: Session, taskId: string, flags: Flags): Promise<void> {
  const client = await session.client();
  const { requireTask } = await import("../task.ts");
  const task = await requireTask(session, taskId);
  const { recovery } = task;
  const onPrevious = flags.from === undefined && recovery?.rung === "previous";
  const point = await client.recoveryPoint(taskId, {
    ...session.ask,
    checkpointId: flags.from,
    before: onPrevious ? (recovery?.avoid_id ?? undefined) : undefined,
  });
  const { foresee, renderForesight } = await import("../rendering/foresight.ts");
  const type = flags.to ?? point.checkpoint?.metadata.agent_type;
  const agentSeen = type === undefined ? null : await isSeen(session, client, type);
  const foresight = foresee(task, point, { ...flags, agentSeen });
  session.exitCode = foresight.refused === null ? 0 : ERROR_TABLE[foresight.refused.code].exit;
  await session.show(foresight, () => renderForesight(foresight, session.view));
}

/** Whether an agent of the type says that it lives, whatever it is at; null: the reader has not listened for long enough to know. */
async function isSeen(session: Session, client: FleetClient, type: string): Promise<boolean | null> {
  const { HEARD_ALL_MS } = await import("../rendering/agents.ts");
  let cursor: string | undefined;
  do {
    const page = await client.agents({ ...session.ask, limit: LIMITS.agents_limit_max, cursor });
    const { agents, listening_since } = page;
    if (agents.some(({ agent_type, state }) => agent_type === type && state !== "silent")) return true;
    if (session.world.now() - Date.parse(listening_since) < HEARD_ALL_MS) return null;
    // Who is never heard stands behind all who are.
    cursor = agents.some(({ last_beat_at }) => last_beat_at === null) ? undefined : page.cursor;
  } while (cursor !== undefined);
  return false;
}
