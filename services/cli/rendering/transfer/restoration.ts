// The result of a restoration from the mirror, for operators.

import type { RestorationFinding, RestorationReport } from "../../commands/mirror/restoration.ts";
import { briefIds } from "../terminal/elision.ts";
import { bulletList } from "../terminal/fields.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";
import { namesOf } from "./import.ts";

const FIT = [{ least: 12, names: true }, { id: briefIds, leaves: 1 }, undefined] as const;

const LOST =
  "Not in the files, and lost with the store: earlier versions of checkpoints, handoffs, recoveries, locks, artifacts, retention holds. The audit trail before the loss stays in the folder, beside the checkpoints. No task has an owner: agents continue with `resume`.";

/** `fleet` is the name of the program in printed commands. */
export function renderRestoration(report: RestorationReport, fleet: string, view: View): string {
  const { colors } = view;
  const { restored, continued, identical, present, kept, checkpoints, missions, findings, dry_run } = report;
  const tasks = counted(restored.length + continued.length, "task");
  const head = dry_run
    ? `${colors.yellow("Nothing was changed.")} A restoration would write ${tasks} from ${plain(report.folder)}.`
    : `${colors.green("✓")} Restored ${tasks} with ${counted(checkpoints, "checkpoint")} from ${plain(report.folder)}.`;
  const list = (name: string, ids: readonly string[]): string[] => bulletList(name, namesOf(ids), view);
  const lost = [...new Set(findings.flatMap(({ lost_artifacts }) => lost_artifacts ?? []))];
  const wrote = restored.length + continued.length > 0;
  return [
    head,
    ...(present > 0 ? [`${counted(present, "task")} of the fleet need no restoration.`] : []),
    ...list("Continued an interrupted restoration", continued),
    ...list("Unchanged, restored before", identical),
    ...list("Missions with their sorties", missions),
    ...list("Kept, the fleet has newer tasks with these names", kept),
    ...(wrote ? ["", LOST] : []),
    ...(findings.length > 0 ? ["", ...findingLines(findings, view)] : []),
    ...list("Artifacts that the fleet lacks", lost),
    ...(lost.length > 0
      ? [`Next: store these files with \`${fleet} artifact put FILE\`, then repeat this call.`]
      : []),
  ].join("\n");
}

function findingLines(findings: readonly RestorationFinding[], view: View): string[] {
  const cells = findings.map(({ task_id, checkpoint_id, problem }) => [
    plain(task_id),
    checkpoint_id === null ? "the whole task" : shownId(checkpoint_id),
    plain(problem),
  ]);
  const head = `${view.colors.red(counted(findings.length, "finding"))}: left out`;
  return [head, "", ...tableLines(cells, { heads: ["TASK", "CHECKPOINT", "PROBLEM"], view, fit: FIT })];
}
