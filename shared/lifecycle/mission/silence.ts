/**
 * The silence of a mission: no activity for so long that its coordinator may have lost its context, or a compaction that
 * an agent of the mission reports (seed 002, the detection loop). A mark in the mission holds until the next activity,
 * which therefore needs no write of its own to clear it. Pure: no store, no clock.
 */
import { recoveryQuestion, type Silence } from "../../protocol/mission.ts";
import type { TaskRecord } from "../task.ts";
import type { EventFact } from "../transition.ts";
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

/** A checkpoint from which the mission would resume. */
export interface ResumePoint {
  readonly id: string;
  readonly timestamp: string;
  readonly trigger: string;
  readonly progress_percent: number;
}

export interface Lapse {
  readonly mission: MissionRecord;
  readonly silence: Silence;
  /** The last activity, for the trail. */
  readonly since: string;
  readonly compacted: EventFact;
  /** null: the mission cannot be resumed, or needs its end and no recovery. */
  readonly recoverable: { readonly event: EventFact; readonly snapshot: string } | null;
}

/** `last`: the last activity; `until`: the mark holds while there is none after it. */
export function lapseOf(
  mission: MissionRecord,
  { last, until, point, nowMs }: { last: string; until: string; point: ResumePoint | null; nowMs: number },
): Lapse {
  const { mission_id } = mission;
  const candidate = point !== null && point.progress_percent < 100 ? point : null;
  const silence: Silence = {
    since: until,
    detected_at: new Date(nowMs).toISOString(),
    checkpoint_id: candidate?.id ?? null,
    checkpoint_at: candidate?.timestamp ?? null,
  };
  const data = {
    mission_id,
    last_activity_at: last,
    inactivity_duration_ms: Math.max(0, nowMs - Date.parse(last)),
    checkpoint_available: point !== null,
    ...(point !== null && { checkpoint_id: point.id }),
  };
  return {
    mission: { ...mission, silence },
    silence,
    since: last,
    compacted: { type: "context_compacted", data },
    recoverable: candidate === null ? null : recoverableFrom(mission_id, candidate),
  };
}

function recoverableFrom(mission_id: string, checkpoint: ResumePoint): NonNullable<Lapse["recoverable"]> {
  const data = { mission_id, checkpoint, message: recoveryQuestion(checkpoint.timestamp) };
  return { event: { type: "recovery_available", data }, snapshot: checkpoint.id };
}
