// The checkpoints of a mission, in the shape of seed 002, with the number of their sorties.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { Checkpoint, Mission } from "../../../../shared/sdk/sdk.ts";
import { signedVersionLines } from "../esign/signatures.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain, progressText, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

interface MissionCheckpoints {
  readonly mission: Pick<Mission, "mission_id">;
  readonly checkpoints: readonly Checkpoint[];
  readonly signatures: readonly EsignBlock[];
  readonly next: string | undefined;
}

export function renderMissionCheckpoints(
  { mission, checkpoints, signatures, next }: MissionCheckpoints,
  view: View,
): string {
  const title = `Checkpoints for mission: ${plain(mission.mission_id)}`;
  if (checkpoints.length === 0 && next === undefined) return `${title}\n\nNone.`;
  const heads = ["ID", "TIMESTAMP", "TRIGGER", "PROGRESS", "SORTIES"];
  const rows = checkpoints.map(({ metadata, execution_state, fleet }) => [
    shownId(metadata.checkpoint_id),
    metadata.committed_at,
    metadata.trigger.reason,
    progressText(execution_state),
    fleet === undefined ? "-" : String(fleet.sorties.length),
  ]);
  return [
    title,
    "",
    ...tableLines(rows, { heads, view }),
    ...signedVersionLines(signatures, view),
    "",
    ...pageEnd(`Total: ${counted(checkpoints.length, "checkpoint")}`, next, view),
  ].join("\n");
}
