/**
 * The silence of a mission: no activity for so long that its coordinator may have lost its context (seed 002, the
 * detection loop). A mark in the mission holds until the next activity, which therefore needs no write of its own to
 * clear it. Pure: no store, no clock.
 */
import type { Silence } from "../../protocol/mission.ts";
import type { TaskRecord } from "../task.ts";
import type { MissionRecord } from "./mission.ts";

type Head = Pick<TaskRecord, "updated_at">;

/** The time of the last activity: of the coordinator or of a specialist. The mark itself is none. */
export function lastActivityOf({ last_activity_at: own }: MissionRecord, head: Head | null): string {
  return head !== null && head.updated_at > own ? head.updated_at : own;
}

/** The mark, while no activity followed it. */
export function silenceOf(mission: MissionRecord, head: Head | null): Silence | null {
  const { silence = null } = mission;
  return silence !== null && silence.since >= lastActivityOf(mission, head) ? silence : null;
}

/** Whether a mission in progress is to be marked now. Once per silence. */
export function isNewlySilent(
  mission: MissionRecord,
  head: Head | null,
  { nowMs, silenceMs }: { readonly nowMs: number; readonly silenceMs: number },
): boolean {
  if (mission.status !== "in_progress" || silenceOf(mission, head) !== null) return false;
  return nowMs - Date.parse(lastActivityOf(mission, head)) > silenceMs;
}
