// The result of an import of LangGraph's threads, for operators.

import { bulletList } from "../terminal/fields.ts";
import { counted, plain } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";
import { namesOf } from "./import.ts";

/** A thread of which a row cannot be imported. */
export interface RefusedThread {
  readonly thread: string;
  readonly row: string;
  readonly problem: string;
}

/** The result of an import, by thread. */
export interface ThreadReport {
  readonly source: string;
  readonly imported: readonly string[];
  /** The fleet had a part of them. */
  readonly continued: readonly string[];
  /** The fleet had all of them. */
  readonly identical: readonly string[];
  /** They differ in the fleet, or another agent owns them. */
  readonly skipped: readonly string[];
  readonly refused: readonly RefusedThread[];
  /** Writes of checkpoints that the source does not have. */
  readonly orphans: number;
  readonly entries: number;
  readonly dry_run: boolean;
}

export function renderThreads(report: ThreadReport, view: View): string {
  const { colors } = view;
  const { source, imported, continued, identical, skipped, refused, orphans, entries, dry_run } = report;
  const written = counted(imported.length + continued.length, "thread");
  const head = dry_run
    ? `${colors.yellow("Nothing was changed.")} An import would write ${written}.`
    : `${colors.green("✓")} Imported ${written} with ${counted(entries, "entry", "entries")} from ${plain(source)}.`;
  const problems = refused.map(({ thread, row, problem }) => `${thread}: ${row}: ${problem}`);
  return [
    head,
    ...bulletList("The fleet had a part", namesOf(continued), view),
    ...bulletList("Unchanged, imported before", namesOf(identical), view),
    ...bulletList("Left out, they differ in this fleet or other agents own them", namesOf(skipped), view),
    ...bulletList("Left out, a row cannot be imported", namesOf(problems), view),
    ...(orphans === 0
      ? []
      : ["", `Left out: ${counted(orphans, "write")} of checkpoints that the source does not have.`]),
  ].join("\n");
}
