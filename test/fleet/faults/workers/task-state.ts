import type { Task } from "../../../../shared/protocol/task.ts";

/** Whether nothing more happens to a task by itself: it has ended, or it waits for an operator. */
export function hasEnded({
  state,
  recovery,
  blocked,
}: Pick<Task, "state" | "recovery" | "blocked">): boolean {
  if (state !== "blocked") return state !== "active" && state !== "handing_off";
  // The watchdogs continue a task whose checkpoint is corrupt.
  return recovery === null || (recovery.state === "blocked" && blocked?.reason !== "checkpoint_corrupt");
}
