/**
 * The retention floor in a checkpoint: the floor that was in force when a version was committed. So a floor that is lowered later does not
 * shorten what was promised under it.
 */
import type { UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import { retentionFloorOf } from "../../protocol/policy.ts";
import { DEFAULT_RETENTION, longerRetention } from "../../protocol/retention.ts";
import type { CommandContext } from "../task/command-transaction.ts";

export type FloorContext = Pick<CommandContext, "actor" | "policies">;

/** The longer one of the present floor and that of the earlier version. */
export function floorOf(
  { actor, policies }: FloorContext,
  { retention_floor: earlier = DEFAULT_RETENTION }: Pick<UnsealedCheckpoint["compliance"], "retention_floor">,
): string {
  return longerRetention(retentionFloorOf(policies, actor.tenant), earlier);
}

/** The member of the sealed checkpoint; none without a floor. */
export function floorMember(floor: string): Pick<UnsealedCheckpoint["compliance"], "retention_floor"> {
  return floor === DEFAULT_RETENTION ? {} : { retention_floor: floor };
}
