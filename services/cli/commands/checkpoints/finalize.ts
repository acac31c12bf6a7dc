// `fleet checkpoint finalize`: ends a checkpoint's time as a draft. After that it never changes.

import { type Command, Option } from "commander";
import type { CheckpointOutcome, FinalStatus } from "../../../../shared/sdk/sdk.ts";
import { addCallOptions, type CallFlags, callOptions } from "../../input/call-options.ts";
import { checkpointId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { showOutcome } from "../../runtime/show-outcome.ts";

interface Flags extends CallFlags {
  readonly status: FinalStatus;
  readonly retention?: string;
  readonly task?: string;
}

/** The protocol's own list comes with its schemas, which would make the help slow. */
const STATUSES = ["succeeded", "failed", "cancelled", "handed_off"] as const satisfies readonly FinalStatus[];

export function addFinalize(group: Command, action: ActionFactory): void {
  const command = group
    .command("finalize")
    .summary("Finalize a checkpoint: it never changes again.")
    .description("Finalize a checkpoint: it never changes again, and its retention begins.")
    .argument("<id>", "the checkpoint", checkpointId)
    .addOption(
      new Option("-s, --status <status>", "its final status").choices(STATUSES).makeOptionMandatory(),
    )
    .option("--retention <policy>", "short, standard, regulated, permanent, or a duration such as P30D")
    .option("-t, --task <id>", "its task, which saves a look-up");
  addCallOptions(command, "the checkpoint has this version").action(action(finalize));
  withExamples(command, (fleet) => ({
    "The work is done": `${fleet} checkpoint finalize chk-0199… --status succeeded`,
    "Finalize it and keep it for six years": `${fleet} checkpoint finalize chk-0199… --status succeeded --retention P6Y`,
  }));
}

/** The completion of a task may hand it to another agent type. */
function handedOff(outcome: CheckpointOutcome, fleet: string): string[] {
  if (outcome.outcome !== "committed" || outcome.handoffId === undefined) return [];
  return [`The task is handed off. Follow it: ${fleet} handoff show ${outcome.handoffId}`];
}

async function finalize(session: Session, id: string, flags: Flags): Promise<void> {
  const client = await session.client();
  const outcome = await client.finalizeCheckpoint(id, flags.status, {
    ...callOptions(session, flags),
    taskId: flags.task,
    ...(flags.retention !== undefined && { retentionPolicy: flags.retention }),
  });
  await showOutcome(session, outcome, {
    done: "Checkpoint finalized",
    quiet: flags.quiet,
    more: [`Status: ${flags.status}`, ...handedOff(outcome, session.programName)],
  });
}
