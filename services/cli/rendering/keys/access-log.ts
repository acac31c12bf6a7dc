// The access log: one line for each entry, and the result of recomputing its chain.

import type { AccessPage } from "../../../../shared/protocol/access-log.ts";
import type { AccessReport } from "../../../../shared/sdk/sdk.ts";
import { type AuditReport, renderReport } from "../operations/audit.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { count, counted, principalText, short, shownId } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

interface AccessTable extends Pick<AccessPage, "entries" | "mode"> {
  /** undefined: all of the tenant. */
  readonly task: string | undefined;
  readonly next: string | undefined;
}

type Entry = AccessPage["entries"][number];

export function renderAccess({ task, entries, mode, next }: AccessTable, view: View): string {
  const rows = entries.map((entry) => [
    short(entry.at),
    principalText(short(entry.actor.id)),
    short(entry.op),
    outcomeText(entry),
    thingText(entry),
    count(entry.count ?? 1),
    short(entry.address ?? "-"),
  ]);
  const fit = [
    { brief: (at: string) => ago(at, view.now) },
    { least: 12, names: true },
    { least: 8 },
    { least: 8 },
    { least: 12, names: true },
    undefined,
    { leaves: 1 },
  ] as const;
  return [
    task === undefined ? "Access log of the tenant" : `Access log of task ${short(task)}`,
    ...(mode === "off" ? ["The policy of the tenant has switched it off: nothing is written."] : []),
    "",
    ...tableLines(rows, {
      heads: ["AT", "ACTOR", "OPERATION", "OUTCOME", "OF", "TIMES", "ADDRESS"],
      view,
      right: [5],
      fit,
    }),
    "",
    ...pageEnd(counted(entries.length, "entry", "entries"), next, view),
  ].join("\n");
}

/** What does not exist is no failure of the fleet: each export asks whether a task is a mission. */
function outcomeText({ outcome, reason }: Entry): string {
  if (outcome === "failed" && reason === "NOT_FOUND") return "not found";
  return reason === undefined ? outcome : `${outcome}: ${short(reason)}`;
}

/** "auth 019a…4f v2", "3 records of auth", "12 records of 4 tasks", or what else the entry names. */
function thingText(entry: Entry): string {
  const { task_id, task_ids, checkpoint_id, version, items, sha256, agent_type, credential } = entry;
  const of = task_ids === undefined ? task_id : counted(task_ids.length, "task");
  if (items !== undefined) return `${counted(items, "record")} of ${short(of ?? "-")}`;
  const parts = [
    of,
    checkpoint_id && shownId(checkpoint_id),
    version && `v${version}`,
    sha256?.slice(0, 12),
    agent_type,
    credential,
  ];
  return parts.filter(Boolean).map(short).join(" ") || "-";
}

export function renderAccessReport(report: AccessReport, view: View): string {
  const { records, lost, open } = report;
  const lines = [
    `${counted(records, "read or refusal", "reads and refusals")} in the blocks.`,
    ...(lost > 0 ? [`Processes state that they have lost ${counted(lost, "entry", "entries")}.`] : []),
    ...open.map(
      ({ session, at }) =>
        `Session ${session} is open, with its newest block of ${at}: its process runs, or was killed and may have lost what came after.`,
    ),
  ];
  return [renderReport("the access log", report satisfies AuditReport, view), ...lines].join("\n");
}
