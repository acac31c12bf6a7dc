/** When nothing more happens to a task by itself. */
import type { Task } from "../../../../shared/protocol/task.ts";

/** It is done, or waits for a person. */
export function hasEnded({ state, recovery }: Pick<Task, "state" | "recovery">): boolean {
  if (state !== "blocked") return state !== "active" && state !== "handing_off";
  return recovery === null || recovery.state === "blocked";
}
