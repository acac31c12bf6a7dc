// The words and tables of a page in Markdown.

import type { MeasuredTree } from "../measure/stored-run.ts";

export const minuteOf = (at: string): string => `${at.slice(0, 10)} ${at.slice(11, 16)} UTC`;

export const commitOf = ({ commit, changed }: MeasuredTree): string =>
  commit === null ? "unknown" : `${commit}${changed ? " with changes" : ""}`;

export function markdownTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, i) => Math.max(3, title.length, ...rows.map((row) => row[i]!.length)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)].join("\n");
}
