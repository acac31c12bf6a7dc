// The result of an import, for operators.

import { bulletList } from "../terminal/fields.ts";
import { counted, plain } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

/** The result of an import, by task. */
export interface ImportReport {
  readonly file: string;
  readonly imported: readonly string[];
  /** An earlier import of the same lines was interrupted, and is complete now. */
  readonly continued: readonly string[];
  /** They were imported from the same lines before, or are the tasks of the file themselves. */
  readonly identical: readonly string[];
  /** Other tasks have their names. */
  readonly skipped: readonly string[];
  /** The file lacks a version or a record of them. */
  readonly incomplete: readonly string[];
  /** Missions without their records: the file has an earlier format. */
  readonly without_records: readonly string[];
  readonly versions: number;
  /** Checkpoints that retention had removed in the fleet of origin. */
  readonly tombstones: number;
  /** Of missions: sorties, locks, messages. */
  readonly records: number;
  /** The artifacts that were stored before them, or were there. */
  readonly artifacts: number;
  /** For a dry run: what neither the file nor the fleet has. */
  readonly missing_artifacts: readonly string[];
  readonly dry_run: boolean;
}

/** Names that are listed. */
const NAMES_MAX = 20;

/** The first names of a list, and the number of the others. */
export function namesOf(all: readonly string[]): string[] {
  const more = all.length > NAMES_MAX ? [`and ${all.length - NAMES_MAX} more`] : [];
  return [...all.slice(0, NAMES_MAX).map((name) => plain(name)), ...more];
}

export function renderImport(report: ImportReport, view: View): string {
  const { colors } = view;
  const { imported, continued, identical, skipped, incomplete, without_records } = report;
  const { versions, tombstones, records, artifacts, dry_run } = report;
  const written = imported.length + continued.length;
  const head = dry_run
    ? `${colors.yellow("Nothing was changed.")} An import would write ${counted(written, "task")}.`
    : written === 0
      ? `Nothing of ${plain(report.file)} was imported now.`
      : `${colors.green("✓")} Imported ${counted(written, "task")} with ${counted(versions, "version")} of checkpoints from ${plain(report.file)}.`;
  const stored = [
    ...(tombstones === 0 ? [] : [`With the tombstones of ${counted(tombstones, "removed checkpoint")}.`]),
    ...(records === 0 ? [] : [`With ${counted(records, "record")} of missions.`]),
    ...(artifacts === 0 ? [] : [`With ${counted(artifacts, "artifact")}.`]),
  ];
  const list = (name: string, tasks: readonly string[]): string[] => bulletList(name, namesOf(tasks), view);
  return [
    head,
    ...stored,
    ...list("Missing artifacts, without which nothing is imported", report.missing_artifacts),
    ...list("Continued an interrupted import", continued),
    ...list("Unchanged, imported before", identical),
    ...list("Left out, other tasks have these names", skipped),
    ...list("Left out, the file lacks a version or a record", incomplete),
    ...list("Left out, a file of this format has no records of missions: export them again", without_records),
  ].join("\n");
}
