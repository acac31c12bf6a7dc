// A task's state for people.

import type { Task } from "../../../shared/sdk/sdk.ts";
import { field } from "./checkpoint.ts";
import { count, plain, shownId } from "./text.ts";
import { exactly } from "./time.ts";
import type { View } from "./view.ts";

export function renderTask(task: Task, view: View): string {
  const { now } = view;
  const owner = task.owner === null ? "nobody" : plain(task.owner);
  return [
    field("Task", view.colors.bold(plain(task.task_id)), view),
    field("State", task.state, view),
    field("Phase", task.phase, view),
    field("Last agent", `${plain(task.agent_id)} (${plain(task.agent_type)})`, view),
    field("Owner", `${owner}, fence ${task.fence}`, view),
    field("Checkpoints", count(task.seq), view),
    field("Latest", shownId(task.latest_id), view),
    field(
      "Last successful",
      task.last_successful_id === null ? "none" : shownId(task.last_successful_id),
      view,
    ),
    field("Audit", `${count(task.audit_seq)} entries, head ${task.audit_hash}`, view),
    field("Created", exactly(task.created_at, now), view),
    field("Updated", exactly(task.updated_at, now), view),
  ].join("\n");
}
