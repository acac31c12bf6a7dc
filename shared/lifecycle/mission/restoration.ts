/**
 * The restoration of a mission from a snapshot (seed 002, phase 2 of the recovery): the sorties get the states of the
 * snapshot, and later progress is cleared.
 *
 * The exception answers open question 2 of the seed, a coordinator that fails while its specialists continue: the
 * sorties of a specialist that reported or renewed a lock less than {@link LIMITS.specialist_active_ms} ago, and after
 * the snapshot, stay as they are. A resumption from a checkpoint that its caller names makes no exception.
 */
import { LIMITS } from "../../protocol/limits.ts";
import type { MissionSnapshot, SortieCounts, SortieSnapshot } from "../../protocol/mission.ts";
import { type LockTable, renewedMs } from "./locks.ts";
import { type MissionRecord, milestoneAt, progressOf, recounted } from "./mission.ts";
import { sortieSnapshot } from "./snapshot.ts";
import { isEndedSortie, type SortieRecord } from "./sortie.ts";

export interface Restoration {
  readonly mission: MissionRecord;
  /** All sorties after the restoration. */
  readonly sorties: readonly SortieRecord[];
  /** Those that the restoration changes. */
  readonly changed: readonly SortieRecord[];
  /** Sorties of working specialists, which stay as they are. */
  readonly kept: readonly string[];
  /** Sorties that have the state of the snapshot. */
  readonly restored: number;
}

export interface RestorationInput {
  readonly mission: MissionRecord;
  readonly sorties: readonly SortieRecord[];
  readonly locks: LockTable;
  readonly snapshot: MissionSnapshot;
  /** The time of the snapshot. */
  readonly takenAt: string;
  /** The caller named the checkpoint, so nothing is kept. */
  readonly isExact: boolean;
  readonly nowMs: number;
}

export function restorationOf(input: RestorationInput): Restoration {
  const { mission, sorties, snapshot, takenAt, isExact, nowMs } = input;
  const at = new Date(nowMs).toISOString();
  const working = isExact ? new Set<string>() : workingSpecialists(input);
  const isKept = ({ assigned_to, last_activity_at }: SortieRecord): boolean =>
    assigned_to !== null && working.has(assigned_to) && last_activity_at > takenAt;
  const present = new Map(sorties.map((sortie) => [sortie.sortie_id, sortie]));
  const recorded = new Map(snapshot.sorties.map((sortie) => [sortie.id, sortie]));
  const after = [...new Set([...present.keys(), ...recorded.keys()])].sort().map((id) => {
    const now = present.get(id);
    if (now !== undefined && isKept(now)) return now;
    const then = recorded.get(id);
    return then === undefined ? cleared(now as SortieRecord, takenAt) : restored(now, then, takenAt);
  });
  const changed = after.filter((sortie) => !isSame(sortie, present.get(sortie.sortie_id)));
  const counts = countsOf(after);
  const kept = sorties.filter(isKept).map(({ sortie_id }) => sortie_id);
  return {
    mission: {
      ...mission,
      sorties: counts,
      sorties_bytes: after.reduce((sum, sortie) => sum + bytesOf(sortie), 0),
      milestone: milestoneAt(progressOf(counts)),
      last_activity_at: at,
    },
    sorties: after,
    changed,
    kept,
    restored: snapshot.sorties.filter(({ id }) => !kept.includes(id)).length,
  };
}

/** A specialist works if its newest report, or the newest renewal of its locks, is after the snapshot and not long ago. */
function workingSpecialists({ sorties, locks: { locks }, takenAt, nowMs }: RestorationInput): Set<string> {
  const takenMs = Date.parse(takenAt);
  const isRecent = (atMs: number) => atMs > takenMs && nowMs - atMs < LIMITS.specialist_active_ms;
  const begun = sorties.filter(({ started_at }) => started_at !== null);
  return new Set(
    begun.flatMap(({ assigned_to, last_activity_at }) => {
      const renewed = locks.flatMap((lock) => (lock.agent_id === assigned_to ? [renewedMs(lock)] : []));
      const works = [Date.parse(last_activity_at), ...renewed].some(isRecent);
      return assigned_to !== null && works ? [assigned_to] : [];
    }),
  );
}

function restored(now: SortieRecord | undefined, then: SortieSnapshot, takenAt: string): SortieRecord {
  const { id, status, assigned_to, files, started_at, progress_notes, title } = then;
  return {
    sortie_id: id,
    title: title ?? now?.title ?? id,
    status,
    assigned_to: assigned_to ?? null,
    files: [...files],
    progress_notes: progress_notes ?? null,
    created_at: now?.created_at ?? takenAt,
    started_at: started_at ?? null,
    ended_at: isEndedSortie(status) ? (now?.ended_at ?? takenAt) : null,
    last_activity_at: takenAt,
  };
}

/** A sortie that was added after the snapshot stays in the mission, without its progress. */
function cleared(now: SortieRecord, takenAt: string): SortieRecord {
  const nothing = { assigned_to: null, progress_notes: null, started_at: null, ended_at: null };
  return { ...now, status: "pending", ...nothing, last_activity_at: takenAt };
}

/** Also true for records that differ in the time of the last activity alone: a repeated restoration changes nothing. */
function isSame(sortie: SortieRecord, before: SortieRecord | undefined): boolean {
  if (before === undefined) return false;
  return JSON.stringify(sortieSnapshot(sortie)) === JSON.stringify(sortieSnapshot(before));
}

const bytesOf = (sortie: SortieRecord): number => Buffer.byteLength(JSON.stringify(sortieSnapshot(sortie)));

function countsOf(sorties: readonly SortieRecord[]): SortieCounts {
  const none = { pending: 0, assigned: 0, in_progress: 0, blocked: 0, completed: 0, failed: 0 };
  return sorties.reduce<SortieCounts>(
    (counts, { status }) => recounted(counts, { from: null, to: status }),
    none,
  );
}
