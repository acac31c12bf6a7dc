// The history of a task as a chain: each checkpoint with its parents.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { RemovedCheckpoint } from "../../../../shared/protocol/retention.ts";
import type { ShredState } from "../../../../shared/protocol/shred.ts";
import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import { signatureBlockText } from "../esign/signatures.ts";
import { briefIds } from "../terminal/elision.ts";
import { pageEnd, tableLines, titleLine } from "../terminal/table.ts";
import { counted, plain, principalText, progressText, shownId } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export interface TaskHistory {
  readonly task: string;
  readonly order: "newest" | "oldest";
  readonly checkpoints: readonly Checkpoint[];
  readonly removed: readonly RemovedCheckpoint[];
  /** Whether all content of the task is removed on purpose. */
  readonly shred?: ShredState | undefined;
  readonly signatures: readonly EsignBlock[];
  readonly next: string | undefined;
}

export function renderHistory(
  { task, order, checkpoints, removed, shred, signatures, next }: TaskHistory,
  view: View,
): string {
  const title = `History of task ${plain(task)}, ${order} first`;
  const gone = [...removedLines(removed, shred, view), ...shredLines(task, shred, view)];
  if (checkpoints.length === 0 && next === undefined)
    return [title, "", ...(gone.length > 0 ? gone : ["None."])].join("\n");
  const rows = tableLines(
    checkpoints.map((checkpoint) => row(checkpoint, view)),
    { view, fit: FIT },
  );
  const lines = checkpoints.flatMap((checkpoint, i) => {
    const last = i === checkpoints.length - 1;
    const isEnd = last && next === undefined;
    const signed = signatures.filter((one) => one.checkpoint_id === checkpoint.metadata.checkpoint_id);
    return [
      rows[i]!,
      ...parentLines(checkpoint, { last: isEnd }, view),
      ...signed.map(
        (one) => `${isEnd ? " " : "│"}   version ${one.version} signed by ${signatureBlockText(one, view)}`,
      ),
    ];
  });
  return [
    titleLine(title, view),
    "",
    ...lines,
    ...(gone.length === 0 || lines.length === 0 ? gone : ["", ...gone]),
    "",
    ...pageEnd(counted(checkpoints.length, "checkpoint"), next, view),
  ].join("\n");
}

/** The removed checkpoints are one line, since many may follow each other. Of a shredded task, retention may have removed some before. */
function removedLines(
  removed: readonly RemovedCheckpoint[],
  shred: ShredState | undefined,
  { colors }: View,
): string[] {
  if (removed.length === 0) return [];
  const positions = removed.map(({ seq }) => seq);
  const [from, to] = [Math.min(...positions), Math.max(...positions)];
  const where = from === to ? `#${from}` : `between #${from} and #${to}`;
  const by = shred === undefined || shred === "requested" ? " by retention" : "";
  return [colors.dim(`${counted(removed.length, "checkpoint")} removed${by}, ${where}`)];
}

/** Of a request, on which the content may depend for days, too. */
function shredLines(task: string, shred: ShredState | undefined, { colors }: View): string[] {
  if (shred === undefined) return [];
  const show = `\`fleet task show ${plain(task)}\``;
  const text = {
    requested: `the removal of all content of the task is requested: ${show}`,
    approved: `two persons have the task shredded: all its content is being removed: ${show}`,
    shredded: `two persons had the task shredded; the proof: \`fleet task shred-certificate ${plain(task)}\``,
  }[shred];
  return [colors.yellow(text)];
}

/** In the order of {@link row}. */
const FIT = [
  undefined,
  { id: briefIds },
  { brief: brieflyAgo },
  { leaves: 1 },
  { leaves: 3 },
  { leaves: 4 },
  { leaves: 2 },
  { least: 12, names: true },
] as const;

function row({ metadata, execution_state: state }: Checkpoint, { colors, now }: View): string[] {
  const final = metadata.status === "finalized";
  return [
    `${final ? "●" : "○"} #${metadata.seq}`,
    colors.bold(shownId(metadata.checkpoint_id)),
    ago(metadata.committed_at, now),
    metadata.trigger.reason,
    progressText(state),
    state.phase,
    metadata.final_status ?? metadata.status,
    principalText(metadata.agent_id),
  ];
}

function parentLines({ metadata }: Checkpoint, { last }: { last: boolean }, { colors }: View): string[] {
  const rail = last ? " " : "│";
  if (metadata.parent_ids.length === 0) return [colors.dim(`${rail}   no parent`)];
  return metadata.parent_ids.map((id) => colors.dim(`${rail}   from ${shownId(id)}`));
}
