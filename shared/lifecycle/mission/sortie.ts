/**
 * A sortie, a part of a mission's work, and the table of its statuses. Pure: no store, no clock.
 *
 *      pending ⇄ assigned ⇄ in_progress ⇄ blocked;  each of them ──▶ failed ──▶ pending, assigned
 *      in_progress ──▶ completed (final)
 */
import { FleetError } from "../../protocol/errors.ts";
import type { SortieStatus } from "../../protocol/mission.ts";
import type { SortieUpdateCommand } from "../../protocol/mission-commands.ts";

export interface SortieRecord {
  readonly sortie_id: string;
  readonly title: string;
  readonly status: SortieStatus;
  /** The specialist; null: none. */
  readonly assigned_to: string | null;
  readonly files: readonly string[];
  readonly progress_notes: string | null;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly ended_at: string | null;
  readonly last_activity_at: string;
}

/** The statuses that may follow each status. */
const NEXT: Readonly<Record<SortieStatus, readonly SortieStatus[]>> = {
  pending: ["assigned", "failed"],
  assigned: ["pending", "in_progress", "failed"],
  in_progress: ["pending", "assigned", "blocked", "completed", "failed"],
  blocked: ["pending", "assigned", "in_progress", "failed"],
  completed: [],
  failed: ["pending", "assigned"],
};

export const isEndedSortie = (status: SortieStatus): boolean => status === "completed" || status === "failed";

export interface PlannedSortie {
  readonly sortie_id: string;
  readonly title: string;
  readonly files: readonly string[];
  readonly assigned_to?: string | undefined;
}

export function newSortie(
  { sortie_id, title, files, assigned_to = undefined }: PlannedSortie,
  at: string,
): SortieRecord {
  return {
    sortie_id,
    title,
    status: assigned_to === undefined ? "pending" : "assigned",
    assigned_to: assigned_to ?? null,
    files,
    progress_notes: null,
    created_at: at,
    started_at: null,
    ended_at: null,
    last_activity_at: at,
  };
}

export type SortieRevision = Pick<
  SortieUpdateCommand,
  "status" | "assigned_to" | "title" | "files" | "progress_notes"
>;

/** Throws CONFLICT for a status that cannot follow the present one, INVALID for work without a specialist. */
export function changedSortie(sortie: SortieRecord, change: SortieRevision, at: string): SortieRecord {
  const assignee = change.assigned_to === undefined ? sortie.assigned_to : change.assigned_to;
  const status = statusAfter(sortie, change, assignee);
  requireNext(sortie, status);
  if (assignee === null && status !== "pending" && status !== "failed") {
    throw new FleetError("INVALID", "the input is not valid", {
      fields: [{ path: "assigned_to", expected: `a specialist, because the sortie is ${status}` }],
    });
  }
  const begins = status === "in_progress" && sortie.started_at === null;
  return {
    ...sortie,
    status,
    assigned_to: assignee,
    title: change.title ?? sortie.title,
    files: change.files ?? sortie.files,
    progress_notes: change.progress_notes ?? sortie.progress_notes,
    started_at: begins ? at : sortie.started_at,
    ended_at: isEndedSortie(status) ? (sortie.ended_at ?? at) : null,
    last_activity_at: at,
  };
}

/** A change of the specialist alone also changes the status: the new one has not begun. */
function statusAfter(sortie: SortieRecord, change: SortieRevision, assignee: string | null): SortieStatus {
  if (change.status !== undefined) return change.status;
  if (change.assigned_to === undefined || assignee === sortie.assigned_to) return sortie.status;
  return assignee === null ? "pending" : "assigned";
}

function requireNext({ sortie_id, status: from }: SortieRecord, to: SortieStatus): void {
  if (from === to || NEXT[from].includes(to)) return;
  throw new FleetError("CONFLICT", "the sortie's status does not allow this", {
    fields: [
      { path: "status", expected: NEXT[from].join(", ") || "no change: the sortie is completed", got: to },
    ],
    details: { sortie_id, status: from },
  });
}
