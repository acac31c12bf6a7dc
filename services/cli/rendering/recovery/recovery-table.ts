// The list of open recoveries, for operators.

import type { Task } from "../../../../shared/sdk/sdk.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { attemptsText, nextStepText, recoveryFailureText, recoveryStateText } from "./recovery-text.ts";

export interface RecoveryTable {
  readonly tasks: readonly Task[];
  /** For each task with an open attempt, the agent type of the offer, if it is known. */
  readonly offeredTo: ReadonlyMap<string, string>;
  /** The command for the next page; undefined if this is the last one. */
  readonly next: string | undefined;
  /** The name of the program in printed commands. */
  readonly fleet: string;
}

/** In the order of the heads below. Operators copy the task. */
const FIT = [
  { least: 12, names: true },
  undefined,
  undefined,
  { leaves: 2 },
  { brief: brieflyAgo },
  { least: 12 },
] as const;

export function renderRecoveries({ tasks, offeredTo, next, fleet }: RecoveryTable, view: View): string {
  if (tasks.length === 0 && next === undefined) return "No open recoveries and no blocked tasks.";
  const heads = ["TASK", "STATE", "ATTEMPTS", "LAST FAILURE", "WHEN", "NEXT"];
  const rows = tasks.flatMap((task) => {
    const { task_id, recovery } = task;
    return recovery === null
      ? []
      : [
          [
            plain(task_id),
            recoveryStateText(recovery.state, view),
            attemptsText(recovery),
            recovery.failure === null ? "-" : recoveryFailureText(recovery.failure),
            recovery.failure === null ? "-" : ago(recovery.failure.noted_at, view.now),
            nextStepText(task, recovery, offeredTo.get(task_id) ?? null, view),
          ],
        ];
  });
  return [
    ...tableLines(rows, { heads, view, fit: FIT }),
    "",
    ...pageEnd(counted(tasks.length, "task"), next, view),
    `Details: \`${fleet} recovery show <task>\``,
  ].join("\n");
}
