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
  const damaged = new Set(own.map(({ checkpoint_id }) => checkpoint_id));
  for (const { op, seq: at, checkpoint_id: id } of entries) {
    if (op === "remove" && at < seq && id !== null) damaged.delete(id);
  }
  return damaged;
}
