// The mission of a call: the named one, or else the current one, with a handle that acts for its coordinator.

import { Option } from "commander";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { FleetClient, Mission, MissionHandle } from "../../../../shared/sdk/sdk.ts";
import { wholeNumber } from "../../input/number.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

/** The help of `--mission`. */
export const MISSION_HELP = "the mission (else the current one)";

export const fenceOption = (): Option =>
  new Option("--fence <n>", "the fence under which you own the mission's task").argParser(wholeNumber(0));

export interface NamedMission {
  readonly client: FleetClient;
  readonly mission: Mission;
  readonly handle: MissionHandle;
}

/** Throws NOT_FOUND for a name that no mission has, UsageError if none is named and none is active. */
export async function namedMission(
  session: Session,
  id: string | undefined,
  { fence }: { readonly fence?: number | undefined } = {},
): Promise<NamedMission> {
  const client = await session.client();
  const mission = await (id === undefined
    ? client.missions.current(session.deadline)
    : client.mission(id).state(session.deadline));
  if (mission === null && id === undefined) {
    throw new UsageError(
      "there is no active mission",
      `Name one with --mission, or start one: ${session.programName} mission start <id> --title "…"`,
    );
  }
  if (mission === null)
    throw new FleetError("NOT_FOUND", "there is no such mission", { details: { mission_id: id } });
  const own = mission.coordinator === client.agentId ? mission.fence : undefined;
  return { client, mission, handle: client.mission(mission.mission_id, { fence: fence ?? own }) };
}
