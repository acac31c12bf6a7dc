// The figures as text: one block for each group, aligned columns, numbers rounded to three digits.

import type { Bound, Row } from "./targets.ts";

export interface Group {
  readonly name: string;
  /** A one-line description of the measurement. */
  readonly about: string;
  readonly rows: readonly Row[];
}

export interface MeasuredGroup extends Group {
  /** The store under the fleet. */
  readonly store: string;
}

const HEAD = ["", "value", "unit", "required", "aim", "met"];
const GAP = "  ";

/** Three significant digits; whole numbers from 1,000 on. */
export function formatNumber(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "—";
  if (Math.abs(value) >= 1_000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}

export function formatBound(bound: Bound | null): string {
  if (bound === null) return "";
  return "below" in bound ? `< ${formatNumber(bound.below)}` : `≥ ${formatNumber(bound.at_least)}`;
}

function cells({ what, value, unit, required, aim, met }: Row): string[] {
  return [what, formatNumber(value), unit, formatBound(required), formatBound(aim), met ?? ""];
}

export function formatTable(groups: readonly MeasuredGroup[]): string {
  const lines = groups.flatMap(({ rows }) => rows.map(cells));
  const widths = HEAD.map((title, i) => Math.max(title.length, ...lines.map((line) => line[i]!.length)));
  const aligned = (line: readonly string[]): string =>
    line
      // Numbers are aligned by their last digit.
      .map((cell, i) => (i === 1 ? cell.padStart(widths[i]!) : cell.padEnd(widths[i]!)))
      .join(GAP)
      .trimEnd();
  return groups
    .map(({ name, store, about, rows }) =>
      [`${name} on ${store}: ${about}`, aligned(HEAD), ...rows.map((row) => aligned(cells(row)))].join("\n"),
    )
    .join("\n\n");
}
