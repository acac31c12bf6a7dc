// A page of checkpoints as a table, newest first as it came.

import type { Checkpoint } from "../../../shared/sdk/sdk.ts";
import { tableLines } from "./table.ts";
import { counted, percentText, plain, shownId } from "./text.ts";
import { ago } from "./time.ts";
import type { View } from "./view.ts";

export interface PageText {
  readonly title: string;
  readonly checkpoints: readonly Checkpoint[];
  /** The command for the next page, when there is one. */
  readonly next: string | undefined;
  /** Whether the rows are of several tasks. */
  readonly withTask: boolean;
}

export function renderPage({ title, checkpoints, next, withTask }: PageText, view: View): string {
  const { colors } = view;
  if (checkpoints.length === 0 && next === undefined) return `${title}\n\nNone.`;
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
    percentText(state.progress_percent),
    state.phase,
    metadata.final_status ?? colors.dim(metadata.status),
    plain(metadata.agent_id),
    ...(withTask ? [plain(metadata.task_id)] : []),
  ]);
  return [
    title,
    "",
    ...tableLines(rows, { heads, view }),
    "",
    ...pageEnd(checkpoints.length, next, view),
  ].join("\n");
}

/** How many there were, and how to go on. */
export function pageEnd(shown: number, next: string | undefined, { colors }: View): string[] {
  if (next === undefined) return [`Total: ${counted(shown, "checkpoint")}`];
  return [`${counted(shown, "checkpoint")}; more with:`, `  ${colors.cyan(next)}`];
}
