// `fleet checkpoint --mission`: records the mission as it is (US-303).

import type { Session } from "../../runtime/session.ts";
import { type RecoveryFlags, recoveredMission } from "./available-recovery.ts";

export interface MissionCheckpointFlags extends RecoveryFlags {
  /** true: the current mission. */
  readonly mission?: string | true;
  readonly note?: string;
  readonly commandId?: string;
  readonly quiet?: boolean;
}

export async function recordMission(session: Session, flags: MissionCheckpointFlags): Promise<void> {
  const { mission: id, note, commandId, quiet } = flags;
  const { handle } = await recoveredMission(session, id === true ? undefined : id, flags);
  const options = { ...session.deadline, commandId, ...(note !== undefined && { note }) };
  const checkpoint = await handle.checkpoint(options);
  const { renderMissionCheckpoint } = await import("../../rendering/missions/mission.ts");
  const { shownId } = await import("../../rendering/terminal/text.ts");
  await session.show(checkpoint, () =>
    quiet === true ? shownId(checkpoint.checkpointId) : renderMissionCheckpoint(checkpoint, session.view),
  );
}
