/** Holds of a task: while there is one, nothing of the task is removed. The trail states the person, the time and the reason of each. */
import type { Decision } from "../decision.ts";
import type { TaskRecord } from "../task.ts";
import { conflict, type Refusal } from "../transition.ts";
import { NO_RETENTION } from "./hold-rules.ts";

/** Names of holds. */
export interface HoldInput {
  readonly hold?: string | undefined;
  readonly release?: string | undefined;
  readonly reason?: string | undefined;
  readonly case?: string | undefined;
}

export function changeHolds(decision: Decision, task: TaskRecord, input: HoldInput): Decision | Refusal {
  const { hold, release } = input;
  const before = task.retention ?? NO_RETENTION;
  if (release !== undefined && !before.holds.includes(release)) {
    return conflict("no_hold", "the task has no such hold", { task_id: task.task_id, holds: before.holds });
  }
  const placed = before.placed?.find(({ name }) => name === hold);
  // Else the second one would take the place of the person, the time and the reason of the first.
  if (placed !== undefined && release !== hold) {
    const { name, ...facts } = placed;
    return conflict("hold_placed", "the task has a hold of this name", {
      ...{ task_id: task.task_id, hold: name },
      ...facts,
    });
  }
  const left = before.holds.filter((name) => name !== release);
  const holds = [...new Set([...left, ...(hold === undefined ? [] : [hold])])].sort();
  return decision.add("hold", {
    facts: {
      holds,
      hold: hold ?? null,
      release: release ?? null,
      reason: input.reason ?? null,
      case: input.case ?? null,
    },
    event: {
      type: "TASK_RETENTION_CHANGED",
      data: { taskId: task.task_id, retentionPolicy: before.policy, holds },
    },
  });
}
