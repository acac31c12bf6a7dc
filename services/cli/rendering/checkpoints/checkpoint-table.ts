// A page of checkpoints as a table, in the order of the answer.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import { signedVersionLines } from "../esign/signatures.ts";
import { briefIds } from "../terminal/elision.ts";
import { pageEnd, tableLines, titleLine } from "../terminal/table.ts";
import { counted, plain, principalText, progressText, shownId } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export interface CheckpointTable {
  readonly title: string;
  readonly checkpoints: readonly Checkpoint[];
  readonly signatures: readonly EsignBlock[];
  /** The command for the next page; undefined if this is the last one. */
  readonly next: string | undefined;
  /** Whether to show the task of each row. */
  readonly withTask: boolean;
  /** The whole text for an empty page; by default the title and "None." */
  readonly none?: string | undefined;
}

/** In the order of the heads below. Agent and task distinguish the rows, so they may be cut but never left out. */
const FIT = [
  { id: briefIds },
  { brief: brieflyAgo },
  { leaves: 1 },
  { leaves: 3 },
  { leaves: 4 },
  { leaves: 2 },
  { least: 12, names: true },
  { least: 12, names: true },
] as const;

export function renderCheckpointTable(
  { title, checkpoints, signatures, next, withTask, none }: CheckpointTable,
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
    principalText(metadata.agent_id),
    ...(withTask ? [plain(metadata.task_id)] : []),
  ]);
  return [
    titleLine(title, view),
    "",
    ...tableLines(rows, { heads, view, fit: FIT }),
    ...signedVersionLines(signatures, view),
    "",
    ...pageEnd(counted(checkpoints.length, "checkpoint"), next, view),
  ].join("\n");
}
