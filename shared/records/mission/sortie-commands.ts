/** The commands that add and change sorties. A completion that reaches a milestone writes a checkpoint (US-301). */
import {
  type MissionRecord,
  milestoneAt,
  progressOf,
  recounted,
  requireActive,
  totalSorties,
} from "../../lifecycle/mission/mission.ts";
import { sortieSnapshot } from "../../lifecycle/mission/snapshot.ts";
import {
  changedSortie,
  isEndedSortie,
  newSortie,
  type SortieRecord,
} from "../../lifecycle/mission/sortie.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { SortieAddCommand, SortieUpdateCommand } from "../../protocol/mission-commands.ts";
import type { Tx } from "../../store/store.ts";
import type { CommandContext, Replay } from "../task/command-transaction.ts";
import type { RememberedMission } from "../task/idempotency.ts";
import { missionAnswer } from "./mission-commands.ts";
import { readSortie } from "./mission-records.ts";
import { MissionTransaction } from "./mission-transaction.ts";

export async function addSorties(
  tx: Tx,
  context: CommandContext,
  { sorties: wanted }: SortieAddCommand,
): Promise<RememberedMission | Replay> {
  const work = await MissionTransaction.begin(tx, context);
  if (!(work instanceof MissionTransaction)) return work;
  const { mission: before, at } = work;
  requireActive(before);
  const total = totalSorties(before.sorties);
  const added = wanted.map((one, i) =>
    newSortie({ ...one, sortie_id: one.sortie_id ?? `srt-${String(total + i + 1).padStart(3, "0")}` }, at),
  );
  await requireNewSorties(work, added);
  const mission = added.reduce<MissionRecord>((so_far, sortie) => counted(so_far, null, sortie, at), before);
  requireRoom(mission);
  const { task: mission_id, agent: agent_id } = context.actor;
  const sortie_ids = added.map(({ sortie_id }) => sortie_id);
  const event = { type: "sorties_added", data: { mission_id, agent_id, sortie_ids } } as const;
  work.add("sortie_add", event, {}, { mission, sorties: added });
  return work.complete({ ...missionAnswer(mission, at), sortie_ids });
}

export async function updateSortie(
  tx: Tx,
  context: CommandContext,
  command: SortieUpdateCommand,
): Promise<RememberedMission | Replay> {
  const work = await MissionTransaction.begin(tx, context, { specialist: true });
  if (!(work instanceof MissionTransaction)) return work;
  const { mission: known, at } = work;
  requireActive(known);
  const { task: mission_id, agent: agent_id } = context.actor;
  const before = await requireSortie(work, command.sortie_id);
  requireRight(work, before, command);
  const sortie = changedSortie(before, command, at);
  const mission = begunBy(counted(known, before, sortie, at), sortie, at);
  requireRoom(mission);
  const progress_percent = progressOf(mission.sorties);
  const milestone = milestoneAt(progress_percent);
  const isReached =
    sortie.status === "completed" && before.status !== "completed" && milestone > known.milestone;
  const { sortie_id, assigned_to } = sortie;
  const statuses = { status_from: before.status, status_to: sortie.status };
  const data = { mission_id, sortie_id, agent_id, ...statuses, assigned_to, progress_percent };
  const written = { mission: isReached ? { ...mission, milestone } : mission, sorties: [sortie] };
  work.add(
    "sortie_update",
    { type: "sortie_changed", data },
    { sortie_id, ...statuses, assigned_to },
    written,
  );
  if (isEndedSortie(sortie.status) || assigned_to !== before.assigned_to) {
    (await work.locks()).releaseWhere((claim) => claim.sortie_id === sortie_id, "sortie_ended");
    work.writeLocks();
  }
  const answer = { ...missionAnswer(mission, at), sortie_ids: [sortie_id] };
  if (!isReached) return work.complete(answer);
  const details = `Reached ${milestone}% milestone`;
  const { answer: snapshot } = await work.checkpoint({ reason: "progress", details });
  return work.complete({ ...answer, checkpoint_id: snapshot.checkpoint_id });
}

/** The first sortie in progress begins a pending mission. */
function begunBy(mission: MissionRecord, sortie: SortieRecord, at: string): MissionRecord {
  if (mission.status !== "pending" || sortie.status !== "in_progress") return mission;
  return { ...mission, status: "in_progress", started_at: at };
}

/** The mission with a sortie that changed from `before`; null: it is new. */
function counted(
  mission: MissionRecord,
  before: SortieRecord | null,
  after: SortieRecord,
  at: string,
): MissionRecord {
  const bytes = bytesOf(after) - (before === null ? 0 : bytesOf(before));
  return {
    ...mission,
    sorties: recounted(mission.sorties, { from: before?.status ?? null, to: after.status }),
    sorties_bytes: mission.sorties_bytes + bytes,
    last_activity_at: at,
  };
}

const bytesOf = (sortie: SortieRecord): number => Buffer.byteLength(JSON.stringify(sortieSnapshot(sortie)));

/** Throws TOO_LARGE for a mission whose snapshot might not fit into a checkpoint. */
function requireRoom({ mission_id, sorties, sorties_bytes }: MissionRecord): void {
  const { mission_bytes_max: bytes, mission_sorties_count_max: count } = LIMITS;
  const total = totalSorties(sorties);
  if (total <= count && sorties_bytes <= bytes) return;
  throw new FleetError("TOO_LARGE", "the sorties of the mission are too large together", {
    fields: [
      {
        path: "sorties",
        expected: `at most ${count} sorties with ${bytes} bytes as JSON`,
        got: `${total} sorties with ${sorties_bytes} bytes`,
      },
    ],
    details: { mission_id },
  });
}

async function requireNewSorties(work: MissionTransaction, added: readonly SortieRecord[]): Promise<void> {
  const { task } = work.context.actor;
  const known = await work.tx.getMany(added.map(({ sortie_id }) => work.keys.sortie(task, sortie_id)));
  const ids = new Set<string>();
  for (const [i, { sortie_id }] of added.entries()) {
    if (known[i] === undefined && !ids.has(sortie_id)) {
      ids.add(sortie_id);
      continue;
    }
    throw new FleetError("CONFLICT", "the mission has a sortie with this id", {
      fields: [{ path: `sorties.${i}.sortie_id`, expected: "a new id", got: sortie_id }],
      details: { mission_id: task, sortie_id },
    });
  }
}

async function requireSortie(work: MissionTransaction, id: string): Promise<SortieRecord> {
  const { task } = work.context.actor;
  const sortie = await readSortie(work.tx, work.keys, task, id);
  if (sortie !== null) return sortie;
  throw new FleetError("NOT_FOUND", "the mission has no such sortie", {
    details: { mission_id: task, sortie_id: id },
  });
}

/** A specialist needs no fence for its own sortie; only the coordinator assigns and renames. */
function requireRight(
  work: MissionTransaction,
  { assigned_to }: SortieRecord,
  { assigned_to: assignment, title }: SortieUpdateCommand,
): void {
  const isOwn = assigned_to === work.context.actor.agent && assignment === undefined && title === undefined;
  if (!isOwn) work.requireCoordinator();
}
