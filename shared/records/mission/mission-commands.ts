/** The commands that start, change and record a mission. */
import {
  changedMission,
  endOfMission,
  type MissionRecord,
  newMission,
  progressOf,
  requireActive,
} from "../../lifecycle/mission/mission.ts";
import type {
  MissionCheckpointCommand,
  MissionStartCommand,
  MissionUpdateCommand,
} from "../../protocol/mission-commands.ts";
import type { Tx } from "../../store/store.ts";
import { systemKeys } from "../kv/keyspace.ts";
import type { CommandContext, Replay } from "../task/command-transaction.ts";
import type { RememberedMission, RememberedSnapshot } from "../task/idempotency.ts";
import { MissionTransaction } from "./mission-transaction.ts";

/** Creates the task, without a checkpoint, if it does not exist yet. */
export async function startMission(
  tx: Tx,
  context: CommandContext,
  { title, description, agent_type, status }: MissionStartCommand,
): Promise<RememberedMission | Replay> {
  const work = await MissionTransaction.begin(tx, context);
  if (!(work instanceof MissionTransaction)) return work;
  work.requireNew();
  const { task: mission_id, agent: agent_id } = context.actor;
  const about = { mission_id, title, description: description ?? null, status, agent_type };
  const mission = newMission({ ...about, created_by: agent_id }, work.at);
  if (!work.isKnownTask) tx.addI64(systemKeys.count("tasks"), 1n);
  tx.set(work.keys.activeMission(mission_id), new Uint8Array(0));
  const event = { type: "mission_started", data: { mission_id, agent_id, status } } as const;
  work.add("mission_start", event, { mission_status: status, agent_type }, { mission });
  return work.complete(missionAnswer(mission, work.at));
}

export async function updateMission(
  tx: Tx,
  context: CommandContext,
  change: MissionUpdateCommand,
): Promise<RememberedMission | Replay> {
  const work = await MissionTransaction.begin(tx, context);
  if (!(work instanceof MissionTransaction)) return work;
  const { mission: before } = work;
  const { title, description, status } = change;
  const mission = changedMission(before, { title, description, status }, work.at);
  const { task: mission_id, agent: agent_id } = context.actor;
  const statuses = { status_from: before.status, status_to: mission.status };
  const event = { type: "mission_changed", data: { mission_id, agent_id, ...statuses } } as const;
  work.add("mission_update", event, statuses, { mission });
  const end = endOfMission(mission.status);
  if (end !== null) {
    (await work.locks()).releaseWhere(() => true, "mission_ended");
    work.writeLocks();
  }
  if (end === null) return work.complete(missionAnswer(mission, work.at));
  tx.clear(work.keys.activeMission(mission_id));
  const details = `Mission ${end}`;
  const { answer } = await work.checkpoint({ reason: "task_complete", details }, { end });
  return work.complete({ ...missionAnswer(mission, work.at), checkpoint_id: answer.checkpoint_id });
}

/** By hand with a note, after an error, which becomes a blocker (US-302, US-303), or when a context is compacted (US-304). */
export async function checkpointMission(
  tx: Tx,
  context: CommandContext,
  { note, error, compaction = false }: MissionCheckpointCommand,
): Promise<RememberedSnapshot | Replay> {
  const specialist = error !== undefined || compaction;
  const work = await MissionTransaction.begin(tx, context, { specialist });
  if (!(work instanceof MissionTransaction)) return work;
  const { mission } = work;
  requireActive(mission);
  await work.requireParticipant();
  const failure = error === undefined ? null : `${error.name}: ${error.message}`;
  const reason = failure !== null ? "error" : compaction ? "compaction" : "manual";
  const blockers = failure === null ? [] : [failure];
  const written = await work.checkpoint({ reason, details: failure ?? note }, { blockers });
  const { answer, fleet } = written;
  if (compaction) work.markCompacted(written);
  const failed = fleet.pending_messages.filter((message) => message.failed === true).length;
  return work.complete({
    ...answer,
    mission_status: mission.status,
    progress_percent: fleet.progress_percent,
    sorties: mission.sorties,
    lock_count: fleet.active_locks.length,
    message_count: fleet.pending_messages.length,
    ...(failed > 0 && { failed_message_count: failed }),
  });
}

export function missionAnswer({ mission_id, status, sorties }: MissionRecord, at: string): RememberedMission {
  return {
    task_id: mission_id,
    mission_status: status,
    progress_percent: progressOf(sorties),
    committed_at: at,
  };
}
