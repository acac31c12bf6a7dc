/** The operations of seed 002 with checkpoints of missions: one is written, they are listed, and a mission resumes from one. */
import { uuidv7 } from "uuidv7";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { signaturesIn } from "../../../shared/protocol/esign.ts";
import { normalizeCheckpointId } from "../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { Mission } from "../../../shared/protocol/mission.ts";
import {
  createMissionCheckpointSchema,
  listedMissionCheckpoint,
  missionMembers,
} from "../../../shared/protocol/rest/mission-checkpoint.ts";
import { validate } from "../../../shared/protocol/validation.ts";
import { withAnswered } from "../../../shared/sdk/esign/display.ts";
import type { Members } from "../http/body.ts";
import { versionTag } from "../http/entity-tag.ts";
import type { ActAnswer, ActContext } from "./act-context.ts";
import type { FleetRequests } from "./fleet-requests.ts";

/** Retention keeps at most 100 of a mission, so more than this are not counted. */
const COUNTED_MAX = 1_000;
const ERROR_FORM = /^(\w{1,64}): (.*)$/s;

export async function createMissionCheckpoint({
  fleet,
  body,
  headers,
  keys,
}: ActContext): Promise<ActAnswer> {
  const { mission_id, trigger, trigger_details, created_by, fence } = validate(
    createMissionCheckpointSchema,
    body,
  );
  requireCaller(fleet, "created_by", created_by);
  const mission = await fleet.ask("mission", { mission_id });
  const [, name = "Error", message = trigger_details ?? ""] = ERROR_FORM.exec(trigger_details ?? "") ?? [];
  const reason =
    trigger === "error"
      ? { error: { name, message } }
      : { note: trigger_details, ...(trigger === "compaction" && { compaction: true }) };
  const answer = await fleet.command("mission_checkpoint", mission_id, {
    command_id: keys.commandId(headers.get("idempotency-key"), fleet.caller) ?? uuidv7(),
    fence: fence ?? ownFence(mission.mission, fleet),
    ...reason,
  });
  if (answer.status === "queued") return { status: 202, body: answer };
  const { checkpoint_id, version, hash, command_id, replayed, warnings } = answer;
  // The answer to a repetition can be later than a signature.
  const { checkpoint, ...beside } = await fleet.ask("get", { checkpoint_id, version });
  return {
    status: 201,
    body: {
      checkpoint: { ...withAnswered(checkpoint, beside), ...missionMembers(checkpoint) },
      ...{ command_id, replayed, warnings },
    },
    headers: {
      location: `/api/v1/checkpoints/${String(checkpoint_id)}`,
      etag: versionTag({ version: version as number, hash: hash as string }),
    },
  };
}

export async function listMissionCheckpoints({ fleet, url }: ActContext): Promise<ActAnswer> {
  const { mission_id: task_id, limit, cursor } = url;
  const page = await fleet.ask("history", { task_id, limit, cursor });
  const { checkpoints, cursor: next } = page;
  const isWhole = cursor === undefined && next === undefined;
  const total = isWhole ? checkpoints.length : await countOf(fleet, task_id);
  const more = next === undefined ? {} : { cursor: next };
  return {
    status: 200,
    body: { checkpoints: checkpoints.map(listedMissionCheckpoint), total, ...more, ...signaturesIn(page) },
  };
}

async function countOf(fleet: FleetRequests, task_id: unknown): Promise<number | null> {
  let count = 0;
  let cursor: string | undefined;
  do {
    const page = await fleet.ask("history", { task_id, limit: LIMITS.history_limit_max, cursor });
    count += page.checkpoints.length;
    cursor = page.cursor;
  } while (cursor !== undefined && count <= COUNTED_MAX);
  return count > COUNTED_MAX ? null : count;
}

export interface MissionPoint {
  readonly mission: Mission;
  readonly checkpoint_id: string;
}

/** null: the checkpoint is none of a mission. Throws NOT_FOUND. */
export async function missionPoint(fleet: FleetRequests, id: string): Promise<MissionPoint | null> {
  const checkpoint_id = normalizeCheckpointId(id);
  const { checkpoint } = await fleet.ask("get", { checkpoint_id });
  if (checkpoint.fleet === undefined) return null;
  try {
    const { mission } = await fleet.ask("mission", { mission_id: checkpoint.metadata.task_id });
    return { mission, checkpoint_id };
  } catch (error) {
    // An orchestrator may write the section of a mission that it does not run on the fleet.
    if (error instanceof FleetError && error.code === "NOT_FOUND") return null;
    throw error;
  }
}

export async function resumeFrom(
  { mission, checkpoint_id }: MissionPoint,
  isPreview: boolean,
  { fleet, body, headers, keys }: ActContext,
): Promise<ActAnswer> {
  const { mission_id } = mission;
  if (isPreview) {
    const preview = await fleet.ask("resume_preview", { mission_id, checkpoint_id });
    return { status: 200, body: { success: true, dry_run: true, ...preview } };
  }
  const { status: _, ...resumption } = await fleet.command("mission_resume", mission_id, {
    command_id: keys.commandId(headers.get("idempotency-key"), fleet.caller) ?? uuidv7(),
    fence: (body as Members).fence ?? ownFence(mission, fleet),
    checkpoint_id,
  });
  return { status: 200, body: { success: true, dry_run: false, mission_id, ...resumption } };
}

/** A caller acts in its own name only. */
export function requireCaller({ caller }: FleetRequests, member: string, named: string | undefined): void {
  if (named === undefined || named === caller.name) return;
  throw new FleetError("FORBIDDEN", `\`${member}\` is another principal than the caller`, {
    details: { [member]: named, caller: caller.name },
  });
}

/** The seed's bodies have no fence: the coordinator acts under the one that it holds now. */
const ownFence = ({ coordinator, fence }: Mission, { caller }: FleetRequests): number | undefined =>
  coordinator === caller.name ? fence : undefined;
