// A prune: the checkpoints that it would remove, and what it removed.

import type { PrunableCheckpoint } from "../../../../shared/protocol/retention-queries.ts";
import type { PruneResult } from "../../../../shared/sdk/client/retention.ts";
import { tableLines } from "../terminal/table.ts";
import { bytesText, counted, plain, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

interface Prunable {
  readonly checkpoints: readonly PrunableCheckpoint[];
  /** undefined: the settings decide. */
  readonly olderThanDays: number | undefined;
  readonly keep: number | undefined;
}

export function renderPrunable({ checkpoints, olderThanDays, keep }: Prunable, view: View): string {
  const older =
    olderThanDays === undefined ? "that the settings no longer keep" : `older than ${olderThanDays} days`;
  const kept = keep === undefined ? "" : ` (keeping ${keep} per task)`;
  const title = `Pruning checkpoints ${older}${kept}...`;
  if (checkpoints.length === 0) return `${title}\n\nNone.`;
  const rows = checkpoints.map((one) => [
    shownId(one.checkpoint_id),
    plain(one.task_id),
    one.committed_at.slice(0, 10),
    one.trigger,
    one.reason,
    bytesText(one.bytes),
  ]);
  const bytes = checkpoints.reduce((sum, one) => sum + one.bytes, 0);
  return [
    title,
    "",
    "Would delete:",
    ...tableLines(rows, { view, right: [5], fit: FIT, indent: 2 }).map((line) => `  ${line}`),
    "",
    `Total: ${counted(checkpoints.length, "checkpoint")} (${bytesText(bytes)})`,
  ].join("\n");
}

/** In the order of the rows. */
const FIT = [
  undefined,
  { least: 12, names: true },
  { leaves: 3 },
  { leaves: 2 },
  { leaves: 1 },
  { leaves: 4 },
] as const;

export function renderPruned({ deleted, freed_bytes, refused }: PruneResult, { colors }: View): string {
  const lines = [`Removed: ${counted(deleted, "checkpoint")} (${bytesText(freed_bytes)})`];
  for (const { id, error } of refused) {
    const reason = typeof error.details.reason === "string" ? ` (${plain(error.details.reason)})` : "";
    lines.push(colors.dim(`Kept: ${shownId(id)}, ${plain(error.message)}${reason}`));
  }
  return lines.join("\n");
}
