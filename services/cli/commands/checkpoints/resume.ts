// `fleet resume`: what an agent must be told to go on with a task, made from its newest checkpoint, and how the workspace stands. It only
// reads: nobody owns the task by it, and nothing in the workspace is touched.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { PROMPT_STYLES, type PromptBudget, type PromptStyle } from "../../../../shared/protocol/prompt.ts";
import type { Checkpoint, Handoff, Task, WorkspaceDrift } from "../../../../shared/sdk/sdk.ts";
import { promptBudget } from "../../input/budget.ts";
import { bareId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly style: PromptStyle;
  readonly budget?: PromptBudget;
  readonly checkpoint?: string;
  /** false: it is not compared. */
  readonly workspace: string | false;
  readonly out?: string;
  readonly dryRun?: boolean;
}

/** The newest sound one, and those newer ones that are not. */
interface Found {
  readonly checkpoint: Checkpoint;
  readonly passedOver: readonly string[];
}

export function addResume(program: Command, action: ActionFactory): void {
  const command = program
    .command("resume")
    .summary("Print what an agent needs to go on with a task.")
    .description(
      "Print the prompt with which an agent goes on with a task: made from the newest sound checkpoint, within a budget.\n" +
        "The workspace is compared with what the checkpoint recorded of it; nothing is taken, reset or changed.",
    )
    .argument("<task>", "the task")
    .addOption(new Option("--style <style>", "how it is told").choices(PROMPT_STYLES).default("standard"))
    .addOption(
      new Option(
        "--budget <size>",
        `how long: tokens, characters as in 9500c, codex_hook or claude_hook (default ${LIMITS.prompt_tokens_default})`,
      ).argParser(promptBudget),
    )
    .addOption(
      new Option("--checkpoint <id>", "go on from this checkpoint (else the newest)").argParser(bareId),
    )
    .option("--workspace <folder>", "where the agent works", ".")
    .option("--no-workspace", "compare no workspace")
    .option("-o, --out <file>", "write the prompt there, for its owner alone; print what it says of itself")
    .option("--dry-run", "print what the prompt would leave out and how the workspace stands, not the prompt")
    .action(action(resume));
  withExamples(command, (fleet) => ({
    "What would be said, and is the workspace still as it was": `${fleet} resume auth --dry-run`,
    "Start an agent with it": `${fleet} resume auth | claude -p`,
    "For a hook, which passes on so much": `${fleet} resume auth --budget claude_hook --style pointer`,
    "To a file, the rest to a script": `${fleet} resume auth --out prompt.md --json | jq .workspace.grade`,
  }));
}

async function resume(session: Session, task: string, flags: Flags): Promise<void> {
  const place = await workspaceFolder(flags.workspace);
  const head = await (await import("../../runtime/existing-task.ts")).requireTask(session, task);
  const { checkpoint, passedOver } = await found(session, task, flags.checkpoint);
  const drift = await compared(checkpoint, place);
  const handoff = await openHandoff(session, head, checkpoint);
  const { continuationPrompt } = await import("../../../../shared/prompts/continuation.ts");
  const prompt = continuationPrompt({
    checkpoint,
    style: flags.style,
    budget: flags.budget,
    drift,
    passedOver,
    handoff,
    // An offer does not know how the command is called here, and this is to be the same text.
    fleet: handoff === undefined ? session.programName : undefined,
  });
  warnAbout(session, head, drift);
  const isWritten = flags.out !== undefined && !flags.dryRun;
  if (isWritten) await (await import("../../runtime/output.ts")).writeOwn(flags.out, prompt.text);
  const resumed = { task: head, checkpoint, prompt, drift, place, out: isWritten ? flags.out : undefined };
  const { renderResumed, resumedData } = await import("../../rendering/checkpoints/resume.ts");
  const isShown = !isWritten && !flags.dryRun;
  await session.show({ ...resumedData(resumed), ...(isShown && { prompt: prompt.text }) }, () =>
    isShown ? prompt.text.trimEnd() : renderResumed(resumed, session.view),
  );
}

/** Looked at before the fleet is asked, because it is a mistake in the call. */
async function workspaceFolder(folder: string | false): Promise<string | undefined> {
  if (folder === false) return undefined;
  const { statSync } = await import("node:fs");
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return folder;
  const { UsageError } = await import("../../runtime/usage.ts");
  throw new UsageError(`${folder} is no folder`, "Give a folder with --workspace, or --no-workspace.");
}

async function found(session: Session, task: string, id: string | undefined): Promise<Found> {
  const client = await session.client();
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  if (id !== undefined) {
    const checkpoint = await client.getCheckpoint(id, session.deadline);
    if (checkpoint !== null && checkpoint.metadata.task_id === task) return { checkpoint, passedOver: [] };
    throw new FleetError("NOT_FOUND", "the task has no such checkpoint", {
      details: { task_id: task, checkpoint_id: id },
    });
  }
  const { checkpoint, passed_over } = await client.latest(task, session.deadline);
  if (checkpoint === null) {
    throw new FleetError("NOT_FOUND", "the task has no checkpoint to go on from", {
      details: { task_id: task },
    });
  }
  return { checkpoint, passedOver: passed_over.flatMap(({ checkpoint_id }) => checkpoint_id ?? []) };
}

/** The one that is under way with this checkpoint: whoever takes its offer is told of it as well. */
async function openHandoff(
  session: Session,
  { handoff_id }: Task,
  { metadata }: Checkpoint,
): Promise<Handoff | undefined> {
  if (handoff_id === null) return undefined;
  const handoff = await (await session.client()).handoff(handoff_id, session.deadline);
  return handoff?.checkpoint_id === metadata.checkpoint_id ? handoff : undefined;
}

async function compared(
  { recovery }: Checkpoint,
  place: string | undefined,
): Promise<WorkspaceDrift | undefined> {
  if (recovery.workspace === undefined || place === undefined) return undefined;
  const { compareWorkspace } = await import("../../../../shared/sdk/workspace/comparison.ts");
  return await compareWorkspace(recovery.workspace, place);
}

/** What must not go unseen by whoever starts an agent with the prompt. */
function warnAbout(session: Session, task: Task, drift: WorkspaceDrift | undefined): void {
  if (["completed", "failed", "cancelled"].includes(task.state)) {
    session.warn({ code: "TASK_ENDED", text: "the task has ended", details: { state: task.state } });
  }
  if (drift !== undefined && drift.grade !== "ok") {
    const worst = drift.findings[0]!;
    session.warn({
      code: "WORKSPACE_DRIFT",
      text: "the workspace is not as the checkpoint recorded it",
      details: { grade: drift.grade, worst: worst.kind, findings: drift.findings.length },
    });
  }
}
