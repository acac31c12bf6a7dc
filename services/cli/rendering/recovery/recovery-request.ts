// A requested recovery, for operators and as JSON.

import type { Handoff, RecoveryResult } from "../../../../shared/sdk/sdk.ts";
import { plain, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

export function recoveryRequestData({
  taskId,
  recovery,
  checkpointId,
  fence,
  commandId,
}: RecoveryResult): object {
  return { task_id: taskId, recovery, checkpoint_id: checkpointId, fence, command_id: commandId };
}

/** `reset`: the whole budget was restored, so attempts start at the latest sound checkpoint again. */
export function renderRecoveryRequest(
  result: RecoveryResult & { readonly reset: boolean; readonly replaced: Handoff | null },
  fleet: string,
  { colors }: View,
): string {
  const { checkpointId, fence, reset, replaced } = result;
  const latest = "the latest sound checkpoint";
  const chosen = reset ? latest : `${latest}, or the previous one if attempts from it made no progress`;
  const task = plain(result.taskId);
  return [
    `${colors.green("Recovery requested:")} task ${colors.bold(task)}`,
    `From: ${checkpointId === null ? chosen : shownId(checkpointId)}`,
    `Fence: ${fence}; a previous owner can no longer write to the task`,
    ...(replaced === null ? [] : [`Cancelled: ${replacedText(replaced, reset)}`]),
    `Follow it: ${fleet} recovery show ${task}`,
  ].join("\n");
}

function replacedText({ handoff_id: id, recovery }: Handoff, reset: boolean): string {
  if (recovery === null) return `handoff ${id}, which was open`;
  return `handoff ${id}, which was attempt ${recovery.attempt}${reset ? "" : " and counts"}`;
}
