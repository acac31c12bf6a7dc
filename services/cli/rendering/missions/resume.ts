// What a resumption restores, and what it restored, in the shape of seed 002.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { ResumePreview } from "../../../../shared/protocol/mission-queries.ts";
import type { Mission, Resumption } from "../../../../shared/sdk/sdk.ts";
import { signedFields } from "../esign/signatures.ts";
import { counted, plain, principalText, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

interface ResumePoint {
  readonly preview: ResumePreview;
  /** Of its checkpoint. */
  readonly signatures: readonly EsignBlock[];
}

/** The checkpoint and the context that it brings back. */
export function renderResumePoint(
  mission: Pick<Mission, "mission_id" | "title">,
  { preview, signatures }: ResumePoint,
  view: View,
): string {
  const { colors } = view;
  const { last_action, next_steps, blockers, files_modified } = preview.recovery_context;
  const sorties = `${preview.completed_sorties}/${preview.total_sorties} sorties complete`;
  const bullets = (texts: readonly string[]) =>
    texts.length === 0 ? ["- None"] : texts.map((text) => `- ${plain(text)}`);
  return [
    `Resuming from checkpoint: ${colors.bold(shownId(preview.checkpoint_id))}`,
    ...signedFields(preview.checkpoint_id, signatures, view),
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

export function renderResumePlan({
  restored,
  kept_sorties,
  messages,
  skipped_messages,
}: ResumePreview): string {
  return [
    "Would restore:",
    ...partsOf(restored).map((part) => `- ${part}`),
    ...messages
      .slice(0, MESSAGES_MAX)
      .map(
        ({ from, to, subject }) =>
          `  From: ${principalText(from)}  To: ${to.map(principalText).join(", ")}  Subject: "${plain(subject)}"`,
      ),
    ...(messages.length > MESSAGES_MAX ? [`  and ${messages.length - MESSAGES_MAX} more`] : []),
    ...skippedLines(skipped_messages),
    ...keptLines(kept_sorties),
  ].join("\n");
}

export function renderResumption(resumption: Resumption): string {
  const { restored, requeuedMessages, keptSorties, skippedMessages = [], notified = [] } = resumption;
  const [sorties, locks] = partsOf(restored);
  const requeued = requeuedMessages?.length ?? restored.messages;
  const before = restored.messages - requeued;
  return [
    "Restoring state...",
    `- Restored ${sorties}`,
    `- Re-acquired ${locks}`,
    `- Requeued ${counted(requeued, "message")}${before > 0 ? ` (${before} queued before)` : ""}`,
    ...skippedLines(skippedMessages),
    ...notified.map(
      ({ agent_id, path }) => `- Notified ${principalText(agent_id)} about the lock on ${plain(path)}`,
    ),
    ...keptLines(keptSorties),
    "",
    "Recovery complete. Mission resumed.",
  ].join("\n");
}

function partsOf({ sorties, locks, messages }: ResumePreview["restored"]): string[] {
  return [counted(sorties, "sortie"), counted(locks, "lock"), counted(messages, "message")];
}

/** The messages of a list in words; --json has all of them. */
const MESSAGES_MAX = 5;

const SKIPS = {
  delivered: "delivered since",
  cancelled: "cancelled since",
  removed: "displaced by newer messages",
  failed_again: "failed again after an earlier resumption",
} as const;

/** One line for each reason. */
function skippedLines(skipped: ResumePreview["skipped_messages"]): string[] {
  return (Object.keys(SKIPS) as (keyof typeof SKIPS)[]).flatMap((reason) => {
    const ids = skipped.filter((one) => one.reason === reason).map(({ message_id }) => plain(message_id));
    if (ids.length === 0) return [];
    const more = ids.length > MESSAGES_MAX ? [`${ids.length - MESSAGES_MAX} more`] : [];
    const named = [...ids.slice(0, MESSAGES_MAX), ...more].join(", ");
    return [`- Skipped ${counted(ids.length, "message")} (${named}): ${SKIPS[reason]}`];
  });
}

const keptLines = (kept: readonly string[]): string[] =>
  kept.length === 0
    ? []
    : [`- Kept the progress of working specialists: ${kept.map((id) => plain(id)).join(", ")}`];
