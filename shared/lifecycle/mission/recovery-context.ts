/**
 * The recovery context of a mission or of one specialist: what a model needs to continue, in sentences (seed 002,
 * US-307). Made from the records alone, so that the same mission yields the same text. Lists are cut, with the
 * number of what is left out, because a mission may have a thousand sorties.
 */
import type { RecoveryContext } from "../../protocol/mission.ts";
import type { MissionRecord } from "./mission.ts";
import type { SortieRecord } from "./sortie.ts";

const STEPS_MAX = 20;
const FILES_MAX = 200;

export interface MissionState {
  readonly mission: MissionRecord;
  readonly sorties: readonly SortieRecord[];
  /** Blockers besides blocked sorties, such as an error. */
  readonly blockers?: readonly string[];
  readonly nowMs: number;
}

export function recoveryContextOf({ mission, sorties, blockers = [], nowMs }: MissionState): RecoveryContext {
  const newest = newestActive(sorties);
  return {
    last_action: newest === undefined ? "The mission was planned; no sortie had begun." : actionText(newest),
    next_steps: bounded(sorties.flatMap(stepOf), STEPS_MAX, "step"),
    blockers: [...blockers, ...bounded(sorties.flatMap(blockerOf), STEPS_MAX, "blocked sortie")],
    files_modified: bounded(filesOf(sorties), FILES_MAX, "file"),
    ...missionFacts(mission, nowMs),
  };
}

/** The context of a specialist, from its own sorties (seed 002, `getMyRecoveryContext`). null: it has none. */
export function specialistContext(
  { mission, sorties, nowMs, blockers = [] }: MissionState,
  agent: string,
): RecoveryContext | null {
  const own = sorties.filter(({ assigned_to }) => assigned_to === agent);
  const newest = newestActive(own) ?? own[0];
  if (newest === undefined) return null;
  return {
    last_action: newest.progress_notes ?? "Unknown",
    next_steps: bounded(own.flatMap(stepOf), STEPS_MAX, "step"),
    blockers: [...blockers, ...bounded(own.flatMap(blockerOf), STEPS_MAX, "blocked sortie")],
    files_modified: bounded(filesOf(own), FILES_MAX, "file"),
    ...missionFacts(mission, nowMs),
  };
}

function missionFacts(
  { title, description, created_at, started_at, last_activity_at }: MissionRecord,
  nowMs: number,
) {
  return {
    mission_summary: description === null || description === "" ? title : `${title}: ${description}`,
    elapsed_time_ms: Math.max(0, nowMs - Date.parse(started_at ?? created_at)),
    last_activity_at,
  };
}

function newestActive(sorties: readonly SortieRecord[]): SortieRecord | undefined {
  const begun = sorties.filter(({ started_at }) => started_at !== null);
  return begun.reduce<SortieRecord | undefined>(
    (newest, one) => (newest === undefined || one.last_activity_at > newest.last_activity_at ? one : newest),
    undefined,
  );
}

const VERBS = {
  pending: "was to begin",
  assigned: "was to begin",
  in_progress: "was working on",
  blocked: "was blocked in",
  completed: "completed",
  failed: "failed in",
} as const;

function actionText({ assigned_to, status, title, files, progress_notes }: SortieRecord): string {
  const agent = assigned_to ?? "An unassigned specialist";
  const isEditing = status === "in_progress" && files.length > 0;
  const what = isEditing
    ? `was editing ${files.slice(0, 3).join(", ")} for "${title}"`
    : `${VERBS[status]} "${title}"`;
  return progress_notes === null || progress_notes === ""
    ? `${agent} ${what}`
    : `${agent} ${what}: ${progress_notes}`;
}

function stepOf({ sortie_id, status, title, assigned_to }: SortieRecord): string[] {
  switch (status) {
    case "in_progress":
      return [`Complete "${title}" (${sortie_id}, ${assigned_to})`];
    case "blocked":
      return [`Resolve what blocks "${title}" (${sortie_id}, ${assigned_to})`];
    case "assigned":
      return [`Begin "${title}" (${sortie_id}, ${assigned_to})`];
    case "pending":
      return [`Assign "${title}" (${sortie_id})`];
    case "failed":
      return [`Decide whether to repeat "${title}" (${sortie_id}), which failed`];
    case "completed":
      return [];
  }
}

function blockerOf({ sortie_id, status, title, progress_notes }: SortieRecord): string[] {
  if (status !== "blocked" && status !== "failed") return [];
  const is = status === "blocked" ? "is blocked" : "failed";
  const reason = progress_notes === null || progress_notes === "" ? "" : `: ${progress_notes}`;
  return [`"${title}" (${sortie_id}) ${is}${reason}`];
}

/** Files of sorties that have begun. */
function filesOf(sorties: readonly SortieRecord[]): string[] {
  return [...new Set(sorties.flatMap(({ started_at, files }) => (started_at === null ? [] : files)))];
}

function bounded(texts: readonly string[], most: number, what: string): string[] {
  if (texts.length <= most) return [...texts];
  const left = texts.length - most;
  return [...texts.slice(0, most), `and ${left} more ${what}${left === 1 ? "" : "s"}`];
}
