// `fleet checkpoint --mission`: records the mission as it is (US-303).

import type { Session } from "../../runtime/session.ts";
import { namedMission } from "./named-mission.ts";

export interface MissionCheckpointFlags {
  /** true: the current mission. */
  readonly mission?: string | true;
  readonly note?: string;
  readonly fence?: number;
  readonly commandId?: string;
  readonly quiet?: boolean;
}

export async function recordMission(session: Session, flags: MissionCheckpointFlags): Promise<void> {
  const { mission: id, note, fence, commandId, quiet } = flags;
  const { handle } = await namedMission(session, id === true ? undefined : id, { fence });
  const options = { ...session.deadline, commandId, ...(note !== undefined && { note }) };
  const checkpoint = await handle.checkpoint(options);
  const { renderMissionCheckpoint } = await import("../../rendering/missions/mission.ts");
  const { shownId } = await import("../../rendering/terminal/text.ts");
  await session.show(checkpoint, () =>
    quiet === true ? shownId(checkpoint.checkpointId) : renderMissionCheckpoint(checkpoint, session.view),
  );
}
