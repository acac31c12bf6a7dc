// The verdicts of a soak as a table.

import { formatNumber } from "../measure/table.ts";
import { allowed, type Judged, type Verdict } from "./judgement/verdict.ts";
import { KINDS } from "./sizes/sample.ts";

const HEAD = ["", "first", "last", "growth per hour", "limit", "verdict"];
const GAP = "  ";
const ORDER: readonly Verdict[] = ["grows", "unclear", "flat", "kept", "not judged"];

export function formatVerdicts(judged: readonly Judged[]): string {
  const sorted = judged.toSorted((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict));
  const lines = [HEAD, ...sorted.map(cells)];
  const widths = HEAD.map((_, i) => Math.max(...lines.map((line) => line[i]!.length)));
  return lines
    .map((line) =>
      line
        .map((cell, i) => (i === 1 || i === 2 ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
        .join(GAP)
        .trimEnd(),
    )
    .join("\n");
}

function cells({ subject, kind, first, last, line, limit, perCommand, verdict }: Judged): string[] {
  const { title, unit } = KINDS[kind];
  const text = (value: number) => amount(value, unit);
  const shown = limit?.per === "command" ? perCommand : line;
  const interval =
    shown === undefined || !Number.isFinite(shown.high)
      ? ""
      : ` (${signed(shown.low, text)} to ${signed(shown.high, text)})`;
  const per = limit?.per === "command" ? " a command" : "";
  return [
    `${subject}: ${title}`,
    text(first),
    text(last),
    shown === undefined ? "unknown" : `${signed(shown.slope, text)}${per}${interval}`,
    limit === null || shown === undefined ? "" : `${text(allowed(limit, shown.mean))}${per}`,
    verdict,
  ];
}

const signed = (value: number, text: (value: number) => string): string =>
  `${value < 0 ? "-" : "+"}${text(Math.abs(value))}`;

/** Bytes in the unit that suits their size. */
export function amount(value: number, unit: string): string {
  if (unit !== "bytes") return formatNumber(value);
  const size = Math.abs(value);
  if (size < 10_000) return `${formatNumber(value)} B`;
  return size < 10_000_000 ? `${formatNumber(value / 1_000)} kB` : `${formatNumber(value / 1_000_000)} MB`;
}
