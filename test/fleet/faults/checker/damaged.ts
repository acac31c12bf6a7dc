/** The damage of a run as the services could know it at an entry of the trail. */
import type { Evidence, FinalTask } from "./evidence.ts";

/**
 * The ids of the checkpoints of a task that were damaged until `untilMs` and not removed before the entry `seq`. A removal that began before
 * the damage is legal, and its tombstone stands for a sound checkpoint. The check of the removals reports the others.
 */
export function damagedBefore(
  { task, entries }: FinalTask,
  { damages }: Pick<Evidence, "damages">,
  seq: number,
  untilMs: number,
): Set<string> {
  const own = damages.filter((one) => one.task === task && one.wall <= untilMs);
  const removed = removedBefore({ entries }, seq);
  return new Set(own.map(({ checkpoint_id }) => checkpoint_id).filter((id) => !removed.has(id)));
}

/** The ids of the checkpoints of a task that were removed before the entry `seq`, until `untilMs`. */
export function removedBefore(
  { entries }: Pick<FinalTask, "entries">,
  seq: number,
  untilMs = Number.POSITIVE_INFINITY,
): Set<string> {
  const removals = entries.filter(
    (one) => one.op === "remove" && one.seq < seq && Date.parse(one.at) <= untilMs,
  );
  return new Set(removals.flatMap(({ checkpoint_id: id }) => (id === null ? [] : [id])));
}
