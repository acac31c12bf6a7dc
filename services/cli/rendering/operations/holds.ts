// The lists of holds, and of tasks to shred.

import type { HoldPage } from "../../../../shared/protocol/holds.ts";
import type { ShredPage } from "../../../../shared/protocol/shred.ts";
import { personsText } from "../keys/shred-certificate.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain, principalText } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export interface HoldTable {
  readonly holds: HoldPage["holds"];
  /** The command for the next page; undefined if this is the last one. */
  readonly next: string | undefined;
}

/** In the order of the heads below. */
const FIT = [
  { least: 12, names: true },
  { least: 8, names: true },
  undefined,
  undefined,
  { least: 12, names: true },
  { brief: brieflyAgo },
] as const;

export function renderHolds({ holds, next }: HoldTable, view: View): string {
  if (holds.length === 0 && next === undefined) return "No holds.";
  const heads = ["TASK", "HOLD", "REASON", "CASE", "PLACED BY", "PLACED"];
  const rows = holds.map(({ task_id, name, reason, case: reference, by, at }) => [
    plain(task_id),
    plain(name),
    plain(reason ?? "-"),
    plain(reference ?? "-"),
    by === null ? "-" : principalText(by),
    at === null ? "-" : ago(at, view.now),
  ]);
  return [
    ...tableLines(rows, { heads, view, fit: FIT }),
    "",
    ...pageEnd(counted(holds.length, "hold"), next, view),
  ].join("\n");
}

export interface ShredTable {
  readonly shreds: readonly (ShredPage["shreds"][number] & {
    /** The persons without issued credentials at that time; null: not known here. */
    readonly without_credentials: readonly string[] | null;
  })[];
  /** The command for the next page; undefined if this is the last one. */
  readonly next: string | undefined;
}

/** In the order of the heads below. */
const SHRED_FIT = [
  { least: 12, names: true },
  undefined,
  undefined,
  undefined,
  { least: 12, names: true },
  { brief: brieflyAgo },
  { least: 12, names: true },
] as const;

export function renderShreds({ shreds, next }: ShredTable, view: View): string {
  if (shreds.length === 0 && next === undefined) return "No tasks to shred.";
  const heads = ["TASK", "STATE", "REASON", "CASE", "REQUESTED BY", "REQUESTED", "APPROVED BY"];
  const rows = shreds.map((one) => [
    plain(one.task_id),
    one.state,
    plain(one.reason),
    plain(one.case ?? "-"),
    principalText(one.requested_by),
    ago(one.requested_at, view.now),
    one.approved_by === null ? "-" : principalText(one.approved_by),
  ]);
  const unissued = [...new Set(shreds.flatMap((one) => one.without_credentials ?? []))];
  return [
    ...tableLines(rows, { heads, view, fit: SHRED_FIT }),
    ...(unissued.length === 0 ? [] : ["", personsText(unissued)]),
    "",
    ...pageEnd(counted(shreds.length, "task"), next, view),
  ].join("\n");
}
