// `fleet resume` of a mission: restores its sorties from a checkpoint, after a confirmation (US-305).

import type { PromptBudget } from "../../../../shared/protocol/prompt.ts";
import { toSnake } from "../../../../shared/sdk/case-convert.ts";
import type { Mission, MissionHandle, Resumption } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { namedMission } from "./named-mission.ts";

export interface MissionResumeFlags {
  readonly mission?: string;
  readonly checkpoint?: string;
  readonly dryRun?: boolean;
  readonly yes?: true;
  readonly fence?: number;
  readonly budget?: PromptBudget;
  /** The file for the prompt of the coordinator. */
  readonly out?: string;
}

/** A mission that has not ended; null: the task is none. */
export async function activeMission(session: Session, task: string): Promise<Mission | null> {
  const client = await session.client();
  const mission = await client.mission(task).state(session.deadline);
  return mission !== null && (mission.status === "pending" || mission.status === "in_progress")
    ? mission
    : null;
}

export async function restoreMission(session: Session, flags: MissionResumeFlags): Promise<void> {
  const { mission: id, checkpoint: checkpointId, dryRun, yes, fence, budget, out } = flags;
  const { handle, mission } = await namedMission(session, id, { fence });
  const preview = await handle.previewResume({ ...session.deadline, checkpointId });
  for (const checkpoint_id of preview.restored_copies ?? []) {
    const text = "a checkpoint was lost or corrupt in the store and was restored from the file mirror";
    session.warn({ code: "CHECKPOINT_RESTORED", text, details: { checkpoint_id } });
  }
  for (const checkpoint_id of preview.missing_copies ?? []) {
    const text = `the file of a checkpoint is missing in the mirror, and the store is used; ${session.programName} mirror rebuild writes it again`;
    session.warn({ code: "CHECKPOINT_FILE_MISSING", text, details: { checkpoint_id } });
  }
  const rendering = await import("../../rendering/missions/resume.ts");
  const { withoutSignatures } = await import("../../../../shared/protocol/esign.ts");
  const { besideMember, signaturesOfNamed } = await import("../esign/shown-signatures.ts");
  const signatures = await signaturesOfNamed(session, mission.mission_id, [preview.checkpoint_id]);
  const signed = besideMember(signatures);
  const point = () => rendering.renderResumePoint(mission, { preview, signatures }, session.view);
  const plan = () => `${point()}\n\n${rendering.renderResumePlan(preview)}`;
  if (dryRun === true)
    return session.show(
      { ...withoutSignatures(preview), ...signed },
      () => `${plan()}\n\nNothing was changed.`,
    );
  if (yes !== true) await confirm(session, plan);
  const resumption = await handle.resume({ ...session.deadline, checkpointId });
  const prompt = await promptOf(handle, resumption, budget);
  if (out !== undefined) await (await import("../../runtime/output.ts")).writePrivateFile(out, prompt);
  await session.show({ ...toSnake(resumption), ...signed, prompt }, () => {
    const done = rendering.renderResumption(resumption);
    return yes === true ? `${point()}\n\n${done}` : done;
  });
}

/** The prompt from which the coordinator continues. */
async function promptOf(
  handle: MissionHandle,
  { recoveryContext, progressPercent }: Resumption,
  budget: PromptBudget | undefined,
): Promise<string> {
  // The answer of a writer that could not read it.
  const context = recoveryContext ?? (await handle.recoveryContext());
  if (context === null) return "";
  const { recoveryPrompt } = await import("../../../../shared/prompts/recovery-prompt.ts");
  return recoveryPrompt({ context, progressPercent, budget }).text;
}

/** Throws UsageError if there is no terminal, or if the answer is no. */
async function confirm(session: Session, before: () => string): Promise<void> {
  if (!session.interactive) {
    throw new UsageError(
      "there is no terminal to ask for a confirmation",
      "See what would be restored with --dry-run, then give --yes.",
    );
  }
  // Before the question, so that the operator knows what is asked.
  session.notice(before());
  const { isConfirmed } = await import("../../runtime/prompts.ts");
  if (await isConfirmed("Restore this state?")) return;
  throw new UsageError("nothing was restored", "You did not confirm.");
}
