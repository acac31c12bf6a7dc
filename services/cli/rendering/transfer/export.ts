// An export file, for operators.

import type { ExportFault } from "../../../../shared/transfer/export-line.ts";
import type { ExportSummary } from "../../../../shared/transfer/export-verifier.ts";
import { field } from "../terminal/fields.ts";
import { bytesText, counted, plain } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

export function renderExport(path: string, summary: ExportSummary, view: View): string {
  const { colors } = view;
  const { tasks, versions, entries, handoffs, lost, removed, unreadable, fleet, tenant, exported_at } =
    summary;
  const { artifacts, artifact_bytes, artifacts_lost } = summary;
  const { records, records_lost, missions_without_records } = summary;
  const missing = [
    ...(lost > 0 ? [`${counted(lost, "version")} of checkpoints`] : []),
    ...(records_lost > 0 ? [`${counted(records_lost, "record")} of missions`] : []),
    ...(unreadable > 0 ? [counted(unreadable, "task")] : []),
    ...(artifacts_lost > 0 ? [counted(artifacts_lost, "artifact")] : []),
  ].join(" and ");
  return [
    `${colors.green("✓")} ${plain(path)} is whole: every hash and every audit chain in it is right.`,
    field("Of", `tenant ${tenant} of fleet ${plain(fleet ?? "unknown")}, at ${plain(exported_at)}`, view),
    field("Tasks", counted(tasks, "task"), view),
    field(
      "With",
      `${counted(versions, "version")} of checkpoints, ${counted(entries, "audit entry", "audit entries")}, ${counted(handoffs, "handoff")}`,
      view,
    ),
    ...(records === 0 ? [] : [field("Missions", counted(records, "record"), view)]),
    ...(artifacts === 0
      ? []
      : [field("Artifacts", `${counted(artifacts, "artifact")}, ${bytesText(artifact_bytes)}`, view)]),
    ...(removed === 0
      ? []
      : [field("Without", `${counted(removed, "version")} that retention had removed`, view)]),
    ...(missions_without_records === 0
      ? []
      : [colors.yellow(`Of ${counted(missions_without_records, "mission")} the file has no records.`)]),
    ...(missing === "" ? [] : [colors.yellow(`The fleet could not read ${missing}.`)]),
  ].join("\n");
}

export function renderFault(path: string, { line, problem }: ExportFault, { colors }: View): string {
  return `${colors.red("✗")} ${plain(path)} is damaged: line ${line}: ${plain(problem)}`;
}
