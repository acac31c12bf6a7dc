/** The steps of a recovery for tests, by the calls that watchdogs make. */
import { uuidv7 } from "uuidv7";
import type { Recovery } from "../../../shared/protocol/recovery-record.ts";
import type { Task } from "../../../shared/protocol/task.ts";
import type { Sighting } from "../../../shared/records/recovery/observations.ts";
import type { NotedFailure, ObservedTask } from "../../../shared/records/recovery-actions.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";

export const items = (count: number, name = "item"): string[] =>
  Array.from({ length: count }, (_, i) => `${name} ${i + 1}`);

/** A watchdog's report that the owner of the task has failed. */
export function sightingOf(head: Task, changes: Partial<Sighting> = {}): Sighting {
  return {
    class: "crash",
    signal: "exit_report",
    agent_id: head.owner,
    agent_type: "qa",
    fence: head.fence,
    details: null,
    resets_at: null,
    last_sign_at: null,
    ...changes,
  };
}

export async function noteFailure(
  repository: CheckpointRepository,
  task: string,
  changes: Partial<Sighting> = {},
): Promise<NotedFailure> {
  const sighting = sightingOf(await repository.task("default", task), changes);
  return repository.recoveryActions.noteFailure({ tenant: "default", task }, sighting);
}

/** Advances a due recovery, as a watchdog does: makes an attempt from the recovery point, or blocks the task. */
export async function advanceRecovery(repository: CheckpointRepository, task: string): Promise<ObservedTask> {
  const place = { tenant: "default", task };
  const head = await repository.task("default", task);
  const { rung, avoid_id, choice, due_at } = head.recovery as Recovery;
  const dueAt = due_at ?? "";
  const checkpointId = choice?.checkpoint_id ?? null;
  const before = rung === "previous" ? avoid_id : null;
  const search = await repository.recoveryActions.findPoint(place, { checkpointId, before });
  if (!search.found) {
    const { reason, details } = search;
    return repository.recoveryActions.block(place, { dueAt, reason, details });
  }
  const { checkpoint_id: found } = search.checkpoint.metadata;
  return repository.recoveryActions.attempt(place, { dueAt, handoffId: uuidv7(), checkpointId: found });
}
