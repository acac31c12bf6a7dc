// The comparison of the mirror with the fleet, for operators.

import type { MirrorFinding, MirrorReport } from "../../commands/mirror/comparison.ts";
import { briefIds } from "../terminal/elision.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

const FIT = [{ least: 12, names: true }, { id: briefIds, leaves: 1 }, undefined] as const;

function cells({ task_id, checkpoint_id, problem }: MirrorFinding): string[] {
  return [plain(task_id), shownId(checkpoint_id), problem];
}

/** `fleet` is the name of the program in printed commands. */
export function renderMirror(report: MirrorReport, fleet: string, view: View): string {
  const { colors } = view;
  const { folder, tasks, files, findings, corrupt } = report;
  const compared = `${counted(files, "whole file")} of ${counted(tasks, "task")} in ${plain(folder)}`;
  const unread = corrupt === 0 ? [] : [`${counted(corrupt, "checkpoint")} of the fleet cannot be read.`];
  if (findings.length === 0) return [`${colors.green("Complete:")} ${compared}`, ...unread].join("\n");
  const isFixable = findings.some(({ problem }) => problem !== "surplus");
  return [
    `${colors.red(counted(findings.length, "finding"))}, and ${compared}`,
    ...unread,
    "",
    ...tableLines(findings.map(cells), { heads: ["TASK", "CHECKPOINT", "FILE"], view, fit: FIT }),
    "",
    isFixable
      ? `Next: \`${fleet} mirror rebuild\` writes missing and damaged files again.`
      : "The fleet has no checkpoints of the surplus files. Remove them by hand if they are not needed.",
  ].join("\n");
}
