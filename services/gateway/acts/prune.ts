/** A prune: the fleet lists what retention keeps no longer, and each checkpoint is removed by a command of its own. */
import { uuidv7 } from "uuidv7";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { prefixedCheckpointId } from "../../../shared/protocol/ids.ts";
import { type Pruned, pruneSchema } from "../../../shared/protocol/rest/bodies.ts";
import type { PrunableCheckpoint } from "../../../shared/protocol/retention-queries.ts";
import { validate } from "../../../shared/protocol/validation.ts";
import type { ActAnswer, ActContext } from "./act-context.ts";
import type { FleetRequests } from "./fleet-requests.ts";

/** The removals of one request; a client asks again for the others. */
const REMOVALS_MAX = 500;

interface PruneRules {
  readonly older_than_days: number | undefined;
  readonly keep: number | undefined;
}

export async function prune({ fleet, body }: ActContext): Promise<ActAnswer> {
  const { dry_run: isPreview, older_than_days, keep_per_mission, mission_id } = validate(pruneSchema, body);
  const rules = { older_than_days: older_than_days ?? undefined, keep: keep_per_mission ?? undefined };
  const removed: PrunableCheckpoint[] = [];
  let cursor: string | undefined;
  do {
    const page = await fleet.ask("prunable", { task_id: mission_id ?? undefined, ...rules, cursor });
    for (const one of page.checkpoints) if (isPreview || (await remove(fleet, one, rules))) removed.push(one);
    cursor = page.cursor;
  } while (cursor !== undefined && removed.length < REMOVALS_MAX);
  const answer: Pruned = {
    deleted: isPreview ? 0 : removed.length,
    freed_bytes: isPreview ? 0 : removed.reduce((sum, { bytes }) => sum + bytes, 0),
    details: removed.map(({ checkpoint_id, task_id, reason }) => ({
      id: prefixedCheckpointId(checkpoint_id),
      mission_id: task_id,
      reason,
    })),
    more: cursor !== undefined,
  };
  return { status: 200, body: answer };
}

/** False: it is needed again, or another request has removed it. */
async function remove(
  fleet: FleetRequests,
  { checkpoint_id, task_id }: PrunableCheckpoint,
  rules: PruneRules,
): Promise<boolean> {
  try {
    await fleet.command("remove", task_id, { command_id: uuidv7(), checkpoint_id, ...rules });
    return true;
  } catch (error) {
    if (error instanceof FleetError && ["CONFLICT", "NOT_FOUND", "EXPIRED"].includes(error.code))
      return false;
    throw error;
  }
}
