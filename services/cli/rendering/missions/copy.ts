// A mission as its newest copied checkpoint has it.

import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import { renderMission } from "../checkpoints/mission.ts";
import { field } from "../terminal/fields.ts";
import { plain, shownId } from "../terminal/text.ts";
import { exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

interface CopiedMission {
  readonly mission_id: string;
  readonly title: string;
  readonly checkpoint: Checkpoint;
  readonly fleet: NonNullable<Checkpoint["fleet"]>;
}

export function renderMissionCopy(
  { mission_id, title, checkpoint, fleet }: CopiedMission,
  view: View,
): string {
  const { checkpoint_id, committed_at } = checkpoint.metadata;
  const { progress_percent: progress } = fleet;
  return [
    field("Mission", `${view.colors.bold(plain(mission_id))} - "${plain(title)}"`, view),
    field("As of", exactly(committed_at, view.now), view),
    field("Checkpoint", shownId(checkpoint_id), view),
    ...(progress === undefined ? [] : [field("Progress", `${progress}%`, view)]),
    ...renderMission(fleet, view).slice(2),
  ].join("\n");
}
