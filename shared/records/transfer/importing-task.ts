/** The task of a command of an import. */
import { isImporting } from "../../lifecycle/import/import.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { Place } from "../checkpoint/checkpoint-location.ts";

export type ImportingTask = TaskRecord & { readonly origin: NonNullable<TaskRecord["origin"]> };

/** Throws NOT_FOUND, CONFLICT. */
export function requireImporting(head: TaskRecord | null, task: string): ImportingTask {
  if (head !== null && isImporting(head)) return head as ImportingTask;
  const details = { task_id: task };
  if (head === null) throw new FleetError("NOT_FOUND", "there is no such task", { details });
  throw new FleetError("CONFLICT", "the task is not being imported", { details });
}

/** Throws CONFLICT if the tenant has a checkpoint with this id. */
export function requireNewId(id: string, place: Place | undefined): void {
  if (place === undefined) return;
  throw new FleetError("CONFLICT", "a checkpoint with this id exists", {
    details: { checkpoint_id: id, task_id: place.task },
  });
}
