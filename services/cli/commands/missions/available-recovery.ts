// At the begin of a coordinator's command: a mission that was silent can be resumed first (US-304).

import { Option } from "commander";
import type { Session } from "../../runtime/session.ts";
import { type NamedMission, namedMission } from "./named-mission.ts";

export interface RecoveryFlags {
  readonly autoResume?: true | undefined;
  readonly fence?: number;
}

export const autoResumeOption = (): Option =>
  new Option("--auto-resume", "if the mission was silent, resume it first, without a question");

/**
 * The mission of the call. If it was silent and has a checkpoint, it is resumed before: with `--auto-resume`, or if an
 * operator at a terminal confirms. Otherwise the way to resume it is printed on standard error.
 */
export async function recoveredMission(
  session: Session,
  id: string | undefined,
  { autoResume, fence }: RecoveryFlags = {},
): Promise<NamedMission> {
  const named = await namedMission(session, id, { fence });
  const { availableRecovery } = await import("../../../../shared/sdk/mission/mission-directory.ts");
  // A call with a fence acts for the coordinator.
  const agent = fence === undefined ? named.client.agentId : (named.mission.coordinator ?? "");
  const available = availableRecovery(named.mission, agent);
  if (available === null) return named;
  if (autoResume !== true && !(await isWanted(session, named, available))) return named;
  const resumption = await named.handle.resume(session.deadline);
  const { renderResumption } = await import("../../rendering/missions/resume.ts");
  session.notice(renderResumption(resumption));
  return namedMission(session, named.mission.mission_id, { fence });
}

async function isWanted(
  session: Session,
  { mission }: NamedMission,
  { checkpointAt, message }: { readonly checkpointAt: string; readonly message: string },
): Promise<boolean> {
  if (session.interactive) {
    const { isConfirmed } = await import("../../runtime/prompts.ts");
    return isConfirmed(message);
  }
  const { mission_id } = mission;
  const call = `${session.programName} resume --mission ${mission_id} --yes`;
  session.notice(
    `Mission ${mission_id} was silent. Found checkpoint from ${checkpointAt}. To resume it: ${call}`,
  );
  return false;
}
