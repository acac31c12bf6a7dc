/** The snapshot of a mission, as the `fleet` section of a checkpoint, and the checkpoint around it. */
import type { CheckpointDraft, TriggerReason } from "../../protocol/checkpoint.ts";
import type {
  LockSnapshot,
  MessageSnapshot,
  MissionSnapshot,
  SortieSnapshot,
} from "../../protocol/mission.ts";
import { progressOf } from "./mission.ts";
import { type MissionState, recoveryContextOf } from "./recovery-context.ts";
import type { SortieRecord } from "./sortie.ts";

export interface WholeMission extends MissionState {
  readonly locks: readonly LockSnapshot[];
  readonly messages: readonly MessageSnapshot[];
}

export function snapshotOf(whole: WholeMission): MissionSnapshot {
  const { mission, sorties, locks, messages } = whole;
  return {
    mission_id: mission.mission_id,
    progress_percent: progressOf(mission.sorties),
    sorties: sorties.map(sortieSnapshot),
    active_locks: [...locks],
    pending_messages: [...messages],
    recovery_context: recoveryContextOf(whole),
  };
}

export function sortieSnapshot(sortie: SortieRecord): SortieSnapshot {
  const { sortie_id, status, assigned_to, files, started_at, progress_notes, title } = sortie;
  return {
    id: sortie_id,
    status,
    ...(assigned_to !== null && { assigned_to }),
    files: [...files],
    ...(started_at !== null && { started_at }),
    ...(progress_notes !== null && { progress_notes }),
    title,
  };
}

export interface SnapshotTrigger {
  readonly reason: TriggerReason;
  readonly details?: string | undefined;
}

/** The completed items are the completed sorties, so that a recovery sees the mission's progress. */
export function snapshotCheckpoint(
  whole: WholeMission,
  { reason, details }: SnapshotTrigger,
  phase: "implementing" | "complete",
): CheckpointDraft {
  const { mission, sorties } = whole;
  const fleet = snapshotOf(whole);
  const completed = sorties.filter(({ status }) => status === "completed");
  return {
    schema_version: "1.1",
    metadata: {
      agent_type: mission.agent_type,
      iteration: 1,
      trigger: { reason, ...(details !== undefined && { details }) },
    },
    execution_state: {
      phase,
      goal: mission.title,
      completed_items: completed.map(({ sortie_id: id, title }) => ({ id, title })),
      pending_items: [],
      blocked_items: [],
      progress_percent: fleet.progress_percent,
    },
    context_summary: { key_decisions: [], assumptions: [], constraints: [], external_dependencies: [] },
    metrics: {
      tokens_consumed: 0,
      tools_invoked: 0,
      files_modified: [...fleet.recovery_context.files_modified],
    },
    recovery: {},
    fleet,
  };
}
