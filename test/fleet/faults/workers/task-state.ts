import type { Task } from "../../../../shared/protocol/task.ts";

/** Whether nothing more happens to a task by itself: it has ended, or it waits for an operator. */
export function hasEnded({ state, recovery }: Pick<Task, "state" | "recovery">): boolean {
  if (state !== "blocked") return state !== "active" && state !== "handing_off";
  return recovery === null || recovery.state === "blocked";
}
