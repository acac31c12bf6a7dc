// A page of checkpoints as a table, newest first as it came.

import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain, progressText, shownId } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export interface PageText {
  readonly title: string;
  readonly checkpoints: readonly Checkpoint[];
  /** The command for the next page, when there is one. */
  readonly next: string | undefined;
  /** Whether the rows are of several tasks. */
  readonly withTask: boolean;
  /** What to say, alone, when nothing was found; else the title stands above "None." */
  readonly none?: string | undefined;
}

/** As in the heads below. A task is what tells rows apart, so it is cut and never left out. */
const FIT = [
  undefined,
  { brief: brieflyAgo },
  { leaves: 1 },
  { leaves: 4 },
  { leaves: 5 },
  { leaves: 3 },
  { leaves: 2 },
  { least: 8 },
] as const;

export function renderCheckpointTable(
  { title, checkpoints, next, withTask, none }: PageText,
  view: View,
): string {
  const { colors } = view;
  if (checkpoints.length === 0 && next === undefined) return none ?? `${title}\n\nNone.`;
  const heads = [
    "ID",
    "WHEN",
    "TRIGGER",
    "PROGRESS",
    "PHASE",
    "STATUS",
    "AGENT",
    ...(withTask ? ["TASK"] : []),
  ];
  const rows = checkpoints.map(({ metadata, execution_state: state }) => [
    shownId(metadata.checkpoint_id),
    ago(metadata.committed_at, view.now),
    metadata.trigger.reason,
    progressText(state),
    state.phase,
    metadata.final_status ?? colors.dim(metadata.status),
    plain(metadata.agent_id),
    ...(withTask ? [plain(metadata.task_id)] : []),
  ]);
  return [
    title,
    "",
    ...tableLines(rows, { heads, view, fit: FIT }),
    "",
    ...pageEnd(checkpoints.length, next, view),
  ].join("\n");
}

/** How many there were, and how to go on. */
export function pageEnd(shown: number, next: string | undefined, { colors }: View): string[] {
  if (next === undefined) return [`Total: ${counted(shown, "checkpoint")}`];
  return [`${counted(shown, "checkpoint")}; more with:`, `  ${colors.cyan(next)}`];
}
