// The filters of the task list, for a task that was read alone. The fleet applies the same ones to its lists.

import type { TasksOptions } from "../../../../shared/sdk/client/admin.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";

export function matchesFilter(
  task: Task,
  { state, phase, agentId, agentType }: Pick<TasksOptions, "state" | "phase" | "agentId" | "agentType">,
): boolean {
  return (
    (state === undefined || task.state === state) &&
    (phase === undefined || task.phase === phase) &&
    (agentType === undefined || task.agent_type === agentType) &&
    (agentId === undefined || task.agent_id === agentId || task.owner === agentId)
  );
}
