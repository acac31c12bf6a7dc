// The list of tasks, and one line for a task that has changed.

import type { ListedTask, TaskState } from "../../../../shared/protocol/task.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain, principalText } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const COLOR = {
  active: "green",
  handing_off: "yellow",
  blocked: "red",
  completed: "dim",
  failed: "red",
  cancelled: "dim",
} as const satisfies Record<TaskState, string>;

export interface TaskTable {
  readonly tasks: readonly ListedTask[];
  /** The command for the next page; undefined if this is the last one. */
  readonly next: string | undefined;
}

/** In the order of the heads below. Operators copy the task. */
const FIT = [
  { least: 12, names: true },
  undefined,
  { least: 12, names: true },
  { leaves: 2 },
  undefined,
  { brief: brieflyAgo },
  { brief: brieflyAgo, leaves: 1 },
] as const;

/** `UPDATED`: the last transition. `AGE`: since the task was created. */
export function renderTasks({ tasks, next }: TaskTable, view: View): string {
  if (tasks.length === 0 && next === undefined) return "No tasks.";
  const heads = ["TASK", "STATE", "OWNER", "PHASE", "PROGRESS", "UPDATED", "AGE"];
  const rows = tasks.map((task) => [
    plain(task.task_id),
    stateText(task, view),
    ownerText(task),
    plain(task.phase ?? "-"),
    progressText(task),
    ago(task.updated_at, view.now),
    ago(task.created_at, view.now),
  ]);
  return [
    ...tableLines(rows, { heads, view, fit: FIT }),
    "",
    ...pageEnd(counted(tasks.length, "task"), next, view),
  ].join("\n");
}

export function renderTaskLine(task: ListedTask, view: View): string {
  const { updated_at, task_id, phase } = task;
  const words = [updated_at, plain(task_id), stateText(task, view), ownerText(task), plain(phase ?? "-")];
  return [...words, progressText(task)].join("  ");
}

/** Shredding leaves the state as it was, and only this says that there is no content. */
function stateText({ state, shred }: ListedTask, { colors }: View): string {
  const text = colors[COLOR[state]](state);
  if (shred === undefined || shred.state === "requested") return text;
  return `${text}, ${colors.red(shred.state === "approved" ? "being shredded" : "shredded")}`;
}

const progressText = ({ progress_percent }: ListedTask): string =>
  progress_percent === null ? "-" : `${progress_percent}%`;

const ownerText = ({ owner }: Task): string => (owner === null ? "-" : principalText(owner));
