// `fleet checkpoint prune`: lists the checkpoints that retention would remove now, and removes them after a confirmation.
// Each removal is a command of its own, so an interrupted prune can be repeated.

import { type Command, Option } from "commander";
import type { PrunableCheckpoint } from "../../../../shared/protocol/retention-queries.ts";
import type { PruneOptions } from "../../../../shared/sdk/client/retention.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

interface Flags {
  readonly task?: string;
  readonly mission?: string;
  readonly olderThan?: number;
  readonly keep?: number;
  readonly dryRun?: true;
  readonly yes?: true;
}

export function addPrune(group: Command, action: ActionFactory): void {
  const command = group
    .command("prune")
    .summary("Remove old checkpoints.")
    .description(
      "Remove the checkpoints that retention no longer keeps: by default those older than 7 days, but never the newest 3 of a task. The fleet does the same once a day. Nothing goes that a recovery, an open handoff, a hold or another retention policy needs.",
    )
    .option("-t, --task <id>", "only those of this task")
    .option("--mission <id>", "the same: a mission is a task")
    .addOption(
      new Option("--older-than <days>", "older than this (else as the settings say, by default 7)").argParser(
        wholeNumber(1),
      ),
    )
    .addOption(
      new Option(
        "--keep <n>",
        "keep this number of the newest of each task (else as the settings say, by default 3)",
      ).argParser(wholeNumber(1)),
    )
    .option("--dry-run", "only list them")
    .option("-y, --yes", "do not ask")
    .action(action(prune));
  withExamples(command, (fleet) => ({
    "Remove what the settings no longer keep": `${fleet} checkpoint prune`,
    "Only list it": `${fleet} checkpoint prune --dry-run`,
    "More than the settings would": `${fleet} checkpoint prune --older-than 3 --keep 1`,
  }));
}

async function prune(session: Session, flags: Flags): Promise<void> {
  const { dryRun, yes, olderThan: olderThanDays, keep } = flags;
  const options = { ...session.deadline, taskId: taskOf(flags), olderThanDays, keep };
  const client = await session.client();
  const checkpoints = await client.admin.retention.allPrunable(options);
  const { renderPrunable } = await import("../../rendering/checkpoints/prune.ts");
  const preview = () => renderPrunable({ checkpoints, olderThanDays, keep }, session.view);
  if (dryRun === true || checkpoints.length === 0) {
    const details = checkpoints.map(detailOf);
    return session.show({ deleted: 0, freed_bytes: 0, details }, preview);
  }
  if (yes !== true) {
    // Before the question, so that the operator knows what is asked.
    session.notice(preview());
    await requireConfirmation(session);
  }
  await remove(session, client, checkpoints, options);
}

const detailOf = ({ checkpoint_id: id, task_id: mission_id, bytes }: PrunableCheckpoint) => ({
  id,
  mission_id,
  bytes,
});

function taskOf({ task, mission }: Flags): string | undefined {
  if (task !== undefined && mission !== undefined && task !== mission) {
    throw new UsageError("--task and --mission name different tasks", "Give one of them.");
  }
  return task ?? mission;
}

/** Throws UsageError if there is no terminal, or if the answer is no. */
async function requireConfirmation(session: Session): Promise<void> {
  if (!session.interactive) {
    throw new UsageError(
      "there is no terminal to ask for a confirmation",
      "List the checkpoints with --dry-run, then give --yes.",
    );
  }
  const { isConfirmed } = await import("../../runtime/prompts.ts");
  if (await isConfirmed("Proceed?")) return;
  throw new UsageError("nothing was removed", "You did not confirm.");
}

async function remove(
  session: Session,
  client: FleetClient,
  checkpoints: readonly PrunableCheckpoint[],
  options: PruneOptions,
): Promise<void> {
  const [{ PROGRESS_END, progressLine }, { renderPruned }] = await Promise.all([
    import("../../rendering/terminal/progress.ts"),
    import("../../rendering/checkpoints/prune.ts"),
  ]);
  const total = checkpoints.length;
  try {
    const onRemoved = (done: number) =>
      session.progress(progressLine({ what: "Removing", done, total }, session.view));
    const result = await client.admin.retention.prune({ ...options, checkpoints, onRemoved });
    session.progress(PROGRESS_END);
    const refused = result.refused.map(({ error, ...one }) => ({ ...one, error: error.toBody() }));
    await session.show({ ...result, refused }, () => renderPruned(result, session.view));
  } finally {
    session.progress(PROGRESS_END);
  }
}
