// `fleet checkpoint --mission`: records the mission as it is (US-303). While the fleet is away, the command waits like that of a task.

import type { MissionHandle } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";
import { showOutcome } from "../../runtime/show-outcome.ts";
import { type RecoveryFlags, recoveredMission } from "./available-recovery.ts";
import { isAway, MissionCopies } from "./mission-copies.ts";

export interface MissionCheckpointFlags extends RecoveryFlags {
  /** true: the current mission. */
  readonly mission?: string | true;
  readonly note?: string;
  readonly commandId?: string;
  readonly quiet?: boolean;
}

export async function recordMission(session: Session, flags: MissionCheckpointFlags): Promise<void> {
  const { note, commandId, quiet } = flags;
  const handle = await missionToRecord(session, flags);
  const options = { ...session.deadline, commandId, ...(note !== undefined && { note }) };
  const checkpoint = await handle.checkpoint(options);
  if (checkpoint.outcome !== "committed")
    return showOutcome(session, checkpoint, { done: "Checkpoint created", quiet });
  const { renderMissionCheckpoint } = await import("../../rendering/missions/mission.ts");
  const { outcomeData } = await import("../../rendering/checkpoints/outcome.ts");
  const { shownId } = await import("../../rendering/terminal/text.ts");
  await session.show(outcomeData(checkpoint), () =>
    quiet === true ? shownId(checkpoint.checkpointId) : renderMissionCheckpoint(checkpoint, session.view),
  );
}

/** While the fleet is away: the named mission, else the one with the newest file. A fence is then known from the call alone. */
async function missionToRecord(session: Session, flags: MissionCheckpointFlags): Promise<MissionHandle> {
  const id = flags.mission === true ? undefined : flags.mission;
  try {
    return (await recoveredMission(session, id, flags)).handle;
  } catch (error) {
    if (!isAway(error)) throw error;
    const mission = id ?? (await currentCopy(session));
    if (mission === null) throw error;
    return (await session.client()).mission(mission, { fence: flags.fence });
  }
}

/** The current mission, also while the fleet is away. null: there is none. */
export async function currentMission(session: Session): Promise<string | null> {
  const client = await session.client();
  try {
    return (await client.missions.current(session.deadline))?.mission_id ?? null;
  } catch (error) {
    const copy = isAway(error) ? await currentCopy(session) : null;
    if (copy === null) throw error;
    return copy;
  }
}

async function currentCopy(session: Session): Promise<string | null> {
  return (await (await MissionCopies.open(session))?.current())?.mission_id ?? null;
}
