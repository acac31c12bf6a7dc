// The state of a task, for operators.

import type { Task } from "../../../../shared/sdk/sdk.ts";
import { recoveryLine } from "../recovery/recovery-text.ts";
import { field } from "../terminal/fields.ts";
import { count, plain, shownId } from "../terminal/text.ts";
import { exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

/** A task that was taken but never written to has none. */
function lastAgent({ agent_id, agent_type }: Task): string {
  return agent_id === null ? "none yet" : `${plain(agent_id)} (${plain(agent_type ?? "-")})`;
}

export function renderTask(task: Task, view: View): string {
  const { now } = view;
  const owner = task.owner === null ? "none" : plain(task.owner);
  return [
    field("Task", view.colors.bold(plain(task.task_id)), view),
    field("State", task.state, view),
    field("Phase", task.phase ?? "none yet", view),
    field("Last agent", lastAgent(task), view),
    field("Owner", `${owner}, fence ${task.fence}`, view),
    ...(task.recovery === null ? [] : [field("Recovery", recoveryLine(task, task.recovery, view), view)]),
    field("Checkpoints", count(task.seq), view),
    field("Latest", task.latest_id === null ? "none yet" : shownId(task.latest_id), view),
    field(
      "Last successful",
      task.last_successful_id === null ? "none" : shownId(task.last_successful_id),
      view,
    ),
    field("Audit trail", `${count(task.audit_seq)} entries, head ${task.audit_hash}`, view),
    field("Created", exactly(task.created_at, now), view),
    field("Updated", exactly(task.updated_at, now), view),
  ].join("\n");
}
