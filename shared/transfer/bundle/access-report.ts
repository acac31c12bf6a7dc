/** The access log in report.html: a row for each read of content and each refused request. */
import type { AccessEntry } from "../../protocol/access-log.ts";
import type { AccessLine } from "./bundle-files.ts";
import { htmlText } from "./bundle-report.ts";

const HEADS = ["Block", "At (UTC)", "Actor", "Operation", "Outcome", "Of", "Times", "Address"];

export function accessReportStart(): string {
  const heads = HEADS.map((head) => `<th>${head}</th>`).join("");
  return `<h2>Access log</h2><p>Who has read content of the tenant, and which requests were refused. The proof is in access.jsonl.</p>\n<table><tr>${heads}</tr>\n`;
}

export const accessReportEnd = (): string => "</table>\n";

/** The rows of a line of access.jsonl. */
export function accessReportPart(line: AccessLine): string {
  if (line.kind !== "block") return "";
  const { entries = [], lost = 0 } = blockIn(line.entry);
  const rows = entries.map((entry) => entryRow(line.seq, entry));
  if (lost > 0)
    rows.push(
      `<tr><td>${line.seq}</td><td colspan="7" class="gap">The process states that it has lost ${htmlText(lost)} entries.</td></tr>\n`,
    );
  return rows.join("");
}

function blockIn(entry: string): {
  readonly entries?: readonly Partial<AccessEntry>[];
  readonly lost?: number;
} {
  try {
    return (JSON.parse(entry) as ReturnType<typeof blockIn> | null) ?? {};
  } catch {
    return {};
  }
}

function entryRow(block: number, entry: Partial<AccessEntry>): string {
  const { at, actor, op, outcome, reason, task_id, task_ids, checkpoint_id, version, items, count } = entry;
  const of = [
    ...(task_ids ?? [task_id ?? ""]),
    checkpoint_id ?? "",
    version === undefined ? "" : `version ${version}`,
  ];
  const things = items === undefined ? "" : ` (${items})`;
  const cells = [
    block,
    htmlText(at ?? ""),
    htmlText(`${actor?.id ?? ""} (${actor?.type ?? ""})`),
    htmlText(op ?? ""),
    htmlText(reason === undefined ? (outcome ?? "") : `${outcome}: ${reason}`),
    htmlText(of.filter((one) => one !== "").join(" ") + things),
    htmlText(count ?? 1),
    htmlText(entry.address ?? ""),
  ];
  return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>\n`;
}
