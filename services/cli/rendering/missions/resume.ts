// What a resumption restores, and what it restored, in the shape of seed 002.

import type { ResumePreview } from "../../../../shared/protocol/mission-queries.ts";
import type { Mission, Resumption } from "../../../../shared/sdk/sdk.ts";
import { counted, plain, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

/** The checkpoint and the context that it brings back. */
export function renderResumePoint(
  mission: Pick<Mission, "mission_id" | "title">,
  preview: ResumePreview,
  { colors }: View,
): string {
  const { last_action, next_steps, blockers, files_modified } = preview.recovery_context;
  const sorties = `${preview.completed_sorties}/${preview.total_sorties} sorties complete`;
  const bullets = (texts: readonly string[]) =>
    texts.length === 0 ? ["- None"] : texts.map((text) => `- ${plain(text)}`);
  return [
    `Resuming from checkpoint: ${colors.bold(shownId(preview.checkpoint_id))}`,
    `Mission: ${plain(mission.mission_id)} - "${plain(mission.title)}"`,
    "",
    "Recovery Context:",
    `- Last action: ${plain(last_action)}`,
    `- Progress: ${preview.progress_percent}% (${sorties})`,
    "",
    "Next Steps:",
    ...(next_steps.length === 0 ? ["- None"] : next_steps.map((step, i) => `${i + 1}. ${plain(step)}`)),
    "",
    "Blockers:",
    ...bullets(blockers),
    "",
    "Files Modified:",
    ...bullets(files_modified),
  ].join("\n");
}

export function renderResumePlan({ restored, kept_sorties }: ResumePreview): string {
  return ["Would restore:", ...partsOf(restored).map((part) => `- ${part}`), ...keptLines(kept_sorties)].join(
    "\n",
  );
}

export function renderResumption({ restored, keptSorties }: Resumption): string {
  const [sorties, locks, messages] = partsOf(restored);
  return [
    "Restoring state...",
    `- Restored ${sorties}`,
    `- Re-acquired ${locks}`,
    `- Requeued ${messages}`,
    ...keptLines(keptSorties),
    "",
    "Recovery complete. Mission resumed.",
  ].join("\n");
}

function partsOf({ sorties, locks, messages }: ResumePreview["restored"]): string[] {
  return [counted(sorties, "sortie"), counted(locks, "lock"), counted(messages, "message")];
}

const keptLines = (kept: readonly string[]): string[] =>
  kept.length === 0
    ? []
    : [`- Kept the progress of working specialists: ${kept.map((id) => plain(id)).join(", ")}`];
