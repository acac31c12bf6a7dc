// `fleet resume`: prints the continuation prompt of a task, made from its newest sound checkpoint, and compares the
// workspace. It only reads: it does not take the task, and it changes no file.

import { type Command, Option } from "commander";
import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { PROMPT_STYLES, type PromptBudget, type PromptStyle } from "../../../../shared/protocol/prompt.ts";
import type { Checkpoint, Handoff, Task, WorkspaceDrift } from "../../../../shared/sdk/sdk.ts";
import { promptBudget } from "../../input/budget.ts";
import { bareId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { fenceOption } from "../missions/named-mission.ts";

interface Flags {
  readonly style: PromptStyle;
  readonly budget?: PromptBudget;
  readonly checkpoint?: string;
  /** false: the workspace is not compared. */
  readonly workspace: string | false;
  readonly out?: string;
  readonly dryRun?: boolean;
  readonly mission?: string;
  readonly yes?: true;
  readonly fence?: number;
}

interface ResumePoint {
  /** The newest sound checkpoint, or the requested one. */
  readonly checkpoint: Checkpoint;
  /** The newer checkpoints that are not sound. */
  readonly passedOver: readonly string[];
}

export function addResume(program: Command, action: ActionFactory): void {
  const command = program
    .command("resume")
    .summary("Print the prompt from which an agent continues a task, or restore a mission.")
    .description(
      "Print the prompt from which an agent continues a task. It is made from the newest sound checkpoint and fits a budget.\n" +
        "The workspace is compared with its state in the checkpoint. The task is not taken, and no file is changed.\n" +
        "A mission is restored instead: its sorties get their states in the newest checkpoint with a snapshot, or in --checkpoint.",
    )
    .argument("[task]", "the task; without one, that of --checkpoint, or the current mission")
    .option("--mission <id>", "restore this mission")
    .option("-y, --yes", "restore the mission without a question")
    .addOption(fenceOption())
    .addOption(
      new Option("--style <style>", "the style of the prompt").choices(PROMPT_STYLES).default("standard"),
    )
    .addOption(
      new Option(
        "--budget <size>",
        `the size of the prompt: tokens, characters as in 9500c, codex_hook or claude_hook (default ${LIMITS.prompt_tokens_default})`,
      ).argParser(promptBudget),
    )
    .addOption(
      new Option("--checkpoint <id>", "continue from this checkpoint (else the newest)").argParser(bareId),
    )
    .option("--workspace <folder>", "the folder in which the agent works", ".")
    .option("--no-workspace", "do not compare the workspace")
    .option("-o, --out <file>", "write the prompt to a private file, and print a summary of it")
    .option(
      "--dry-run",
      "print the summary alone: what the prompt leaves out, and the state of the workspace",
    )
    .action(action(resume));
  withExamples(command, (fleet) => ({
    "What the prompt leaves out, and whether the workspace has changed": `${fleet} resume auth --dry-run`,
    "Start an agent with the prompt": `${fleet} resume auth | claude -p`,
    "What a mission would get back": `${fleet} resume --mission msn-auth --dry-run`,
    "Restore the current mission": `${fleet} resume --yes`,
    "For a hook with a limited size": `${fleet} resume auth --budget claude_hook --style pointer`,
    "The prompt to a file, the summary to a script": `${fleet} resume auth --out prompt.md --json | jq .workspace.grade`,
  }));
}

async function resume(session: Session, task: string | undefined, flags: Flags): Promise<void> {
  if (flags.dryRun !== true) return resumeStored(session, task, flags);
  const { orFromCopies } = await import("../missions/mission-copies.ts");
  const { showCopiedResumption } = await import("../missions/copied-mission.ts");
  await orFromCopies(
    session,
    () => resumeStored(session, task, flags),
    (copies) => showCopiedResumption(session, copies, { ...flags, mission: flags.mission ?? task }),
  );
}

async function resumeStored(session: Session, task: string | undefined, flags: Flags): Promise<void> {
  const folder = await workspaceFolder(flags.workspace);
  const missions = await import("../missions/mission-resume.ts");
  if (flags.mission !== undefined) return missions.restoreMission(session, flags);
  const named = task ?? (await taskOfCheckpoint(session, flags.checkpoint));
  if (named === undefined) return missions.restoreMission(session, flags);
  const mission = await missions.activeMission(session, named);
  if (mission !== null) return missions.restoreMission(session, { ...flags, mission: named });
  return resumeTask(session, named, flags, folder);
}

/** A checkpoint names its task. Throws NOT_FOUND without such a checkpoint. */
async function taskOfCheckpoint(session: Session, id: string | undefined): Promise<string | undefined> {
  if (id === undefined) return undefined;
  const client = await session.client();
  const checkpoint = await client.getCheckpoint(id, session.deadline);
  if (checkpoint !== null) return checkpoint.metadata.task_id;
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  throw new FleetError("NOT_FOUND", "there is no such checkpoint", { details: { checkpoint_id: id } });
}

async function resumeTask(
  session: Session,
  task: string,
  flags: Flags,
  folder: string | undefined,
): Promise<void> {
  const head = await (await import("../../runtime/existing-task.ts")).requireTask(session, task);
  const { checkpoint, passedOver } = await resumePoint(session, task, flags.checkpoint);
  const drift = await workspaceDrift(checkpoint, folder);
  const handoff = await openHandoff(session, head, checkpoint);
  const { continuationPrompt } = await import("../../../../shared/prompts/continuation.ts");
  const prompt = continuationPrompt({
    checkpoint,
    style: flags.style,
    budget: flags.budget,
    drift,
    passedOver,
    handoff,
    // An offer does not know the local name of the program, and the prompt must be the same text as in the offer.
    fleet: handoff === undefined ? session.programName : undefined,
  });
  warnAbout(session, head, drift);
  const isWritten = flags.out !== undefined && !flags.dryRun;
  if (isWritten) await (await import("../../runtime/output.ts")).writePrivateFile(flags.out, prompt.text);
  const { signaturesOf } = await import("../esign/shown-signatures.ts");
  const signatures = await signaturesOf(session, [checkpoint]);
  const out = isWritten ? flags.out : undefined;
  const summary = { task: head, checkpoint, signatures, prompt, drift, folder, out };
  const { renderResume, resumeData } = await import("../../rendering/checkpoints/resume.ts");
  const isShown = !isWritten && !flags.dryRun;
  // The prompt is for an agent. The person who starts it sees on standard error who has signed what it continues.
  if (isShown && !session.json) await noticeSigned(session, signatures);
  await session.show({ ...resumeData(summary), ...(isShown && { prompt: prompt.text }) }, () =>
    isShown ? prompt.text.trimEnd() : renderResume(summary, session.view),
  );
}

async function noticeSigned(session: Session, signatures: readonly EsignBlock[]): Promise<void> {
  const { signedVersionLines } = await import("../../rendering/esign/signatures.ts");
  for (const line of signedVersionLines(signatures, session.view).slice(1)) session.notice(line);
}

/** Checked before the fleet is asked, because a missing folder is a mistake in the call. */
async function workspaceFolder(folder: string | false): Promise<string | undefined> {
  if (folder === false) return undefined;
  const { statSync } = await import("node:fs");
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return folder;
  const { UsageError } = await import("../../runtime/usage.ts");
  throw new UsageError(
    `${folder} is not a folder`,
    "Give a folder with --workspace, or give --no-workspace.",
  );
}

async function resumePoint(session: Session, task: string, id: string | undefined): Promise<ResumePoint> {
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
    throw new FleetError("NOT_FOUND", "the task has no checkpoint to continue from", {
      details: { task_id: task },
    });
  }
  return { checkpoint, passedOver: passed_over.flatMap(({ checkpoint_id }) => checkpoint_id ?? []) };
}

/** The open handoff of this checkpoint. The prompt mentions it, as the offer does. */
async function openHandoff(
  session: Session,
  { handoff_id }: Task,
  { metadata }: Checkpoint,
): Promise<Handoff | undefined> {
  if (handoff_id === null) return undefined;
  const handoff = await (await session.client()).handoff(handoff_id, session.deadline);
  return handoff?.checkpoint_id === metadata.checkpoint_id ? handoff : undefined;
}

async function workspaceDrift(
  { recovery }: Checkpoint,
  folder: string | undefined,
): Promise<WorkspaceDrift | undefined> {
  if (recovery.workspace === undefined || folder === undefined) return undefined;
  const { compareWorkspace } = await import("../../../../shared/sdk/workspace/comparison.ts");
  return await compareWorkspace(recovery.workspace, folder);
}

/** Warnings for the operator who starts an agent with the prompt. */
function warnAbout(session: Session, task: Task, drift: WorkspaceDrift | undefined): void {
  if (["completed", "failed", "cancelled"].includes(task.state)) {
    session.warn({ code: "TASK_ENDED", text: "the task has ended", details: { state: task.state } });
  }
  if (drift !== undefined && drift.grade !== "ok") {
    const worst = drift.findings[0]!;
    session.warn({
      code: "WORKSPACE_DRIFT",
      text: "the workspace differs from its state in the checkpoint",
      details: { grade: drift.grade, worst: worst.kind, findings: drift.findings.length },
    });
  }
}
