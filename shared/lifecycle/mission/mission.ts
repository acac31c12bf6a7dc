/** A mission and the table of its statuses. Pure: no store, no clock. */
import { FleetError } from "../../protocol/errors.ts";
import {
  MILESTONES,
  type MissionStatus,
  type Silence,
  type SortieCounts,
  type SortieStatus,
} from "../../protocol/mission.ts";

export interface MissionRecord {
  readonly mission_id: string;
  readonly title: string;
  readonly description: string | null;
  readonly status: MissionStatus;
  readonly agent_type: string;
  readonly created_by: string;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly last_activity_at: string;
  readonly sorties: SortieCounts;
  /** The size of all sorties as JSON. */
  readonly sorties_bytes: number;
  /** The highest milestone that was reached; 0: none. */
  readonly milestone: number;
  /** Absent: the mission was never silent. */
  readonly silence?: Silence;
}

/** The statuses that may follow each status. */
const NEXT: Readonly<Record<MissionStatus, readonly MissionStatus[]>> = {
  pending: ["in_progress", "completed", "failed", "cancelled"],
  in_progress: ["completed", "failed", "cancelled"],
  completed: [],
  failed: [],
  cancelled: [],
};

export type MissionEnd = "completed" | "failed" | "cancelled";

/** How the final checkpoint of a mission is finalized. */
export const FINAL_STATUS_OF = {
  completed: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
} as const satisfies Record<MissionEnd, string>;

export function endOfMission(status: MissionStatus): MissionEnd | null {
  return status === "pending" || status === "in_progress" ? null : status;
}

const NO_SORTIES: SortieCounts = {
  pending: 0,
  assigned: 0,
  in_progress: 0,
  blocked: 0,
  completed: 0,
  failed: 0,
};

export type NewMission = Pick<
  MissionRecord,
  "mission_id" | "title" | "description" | "status" | "agent_type" | "created_by"
>;

export function newMission(mission: NewMission, at: string): MissionRecord {
  return {
    ...mission,
    created_at: at,
    started_at: mission.status === "in_progress" ? at : null,
    ended_at: null,
    last_activity_at: at,
    sorties: NO_SORTIES,
    sorties_bytes: 0,
    milestone: 0,
  };
}

export interface MissionChange {
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly status?: MissionStatus | undefined;
}

/** Throws CONFLICT for a status that cannot follow, or a completion while sorties are open. */
export function changedMission(mission: MissionRecord, change: MissionChange, at: string): MissionRecord {
  const status = change.status ?? mission.status;
  requireActive(mission);
  if (status !== mission.status && !NEXT[mission.status].includes(status)) {
    throw new FleetError("CONFLICT", "the mission's status does not allow this", {
      fields: [{ path: "status", expected: NEXT[mission.status].join(", "), got: status }],
      details: { mission_id: mission.mission_id, status: mission.status },
    });
  }
  const open = openSorties(mission.sorties);
  if (status === "completed" && open > 0) {
    throw new FleetError("CONFLICT", "the mission has open sorties", {
      details: { mission_id: mission.mission_id, open, sorties: mission.sorties },
    });
  }
  return {
    ...mission,
    status,
    title: change.title ?? mission.title,
    description: change.description ?? mission.description,
    started_at: status === "in_progress" ? (mission.started_at ?? at) : mission.started_at,
    ended_at: endOfMission(status) === null ? null : at,
    last_activity_at: at,
  };
}

/** Throws CONFLICT for a mission that has ended. */
export function requireActive({ mission_id, status }: MissionRecord): void {
  if (endOfMission(status) === null) return;
  throw new FleetError("CONFLICT", "the mission has ended", { details: { mission_id, status } });
}

export const totalSorties = (counts: SortieCounts): number =>
  Object.values(counts).reduce((all, count) => all + count, 0);

const openSorties = (counts: SortieCounts): number => totalSorties(counts) - counts.completed - counts.failed;

/** Completed sorties in percent of all, rounded (US-301). 0 without sorties. */
export function progressOf(counts: SortieCounts): number {
  const total = totalSorties(counts);
  return total === 0 ? 0 : Math.round((counts.completed / total) * 100);
}

/** The highest milestone at or below a progress; 0: none. */
export const milestoneAt = (progress: number): number =>
  MILESTONES.findLast((milestone) => progress >= milestone) ?? 0;

export function recounted(
  counts: SortieCounts,
  change: { readonly from: SortieStatus | null; readonly to: SortieStatus },
): SortieCounts {
  const left = change.from === null ? counts : { ...counts, [change.from]: counts[change.from] - 1 };
  return { ...left, [change.to]: left[change.to] + 1 };
}
