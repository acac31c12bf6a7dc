// Tables without lines: columns two spaces apart, aligned by their width in a terminal, not by the length of the text.

import stringWidth from "string-width";
import { type ColumnFit, type FittedTable, fitTable, type Rows } from "./column-widths.ts";
import { elided, elidedColumn } from "./elision.ts";
import type { View } from "./view.ts";

const GAP = "  ";

/**
 * One line for each row, below the heads if there are any. `fit`: how each column may shrink on a terminal that is too
 * narrow; `right`: the columns that are aligned to the right; `indent`: the columns that the caller puts in front.
 */
export function tableLines(
  rows: Rows,
  options: {
    readonly heads?: readonly string[];
    readonly view?: View;
    readonly right?: readonly number[];
    readonly fit?: readonly (ColumnFit | undefined)[];
    readonly indent?: number;
  } = {},
): string[] {
  const { heads, view, right = [], fit = [], indent = 0 } = options;
  const all = heads === undefined ? rows : [heads.map((head) => view?.colors.bold(head) ?? head), ...rows];
  const fitted = fitTable(all, fit, {
    width: (view?.width ?? Number.POSITIVE_INFINITY) - indent,
    gap: GAP.length,
    heads: heads === undefined ? 0 : 1,
  });
  // The last column needs no padding: it would wrap on a narrow terminal and be copied along.
  return withNames(fitted, fit, heads === undefined ? 0 : 1).map((row) =>
    row
      .map((cell, place) => padded(cell, fitted.widths[place]!, right.includes(fitted.columns[place]!)))
      .join(GAP)
      .trimEnd(),
  );
}

/** The rows with their names in the widths of their columns. */
function withNames(
  { rows, columns, widths }: FittedTable,
  fit: readonly (ColumnFit | undefined)[],
  heads: number,
): string[][] {
  const shown = rows.map((row) => [...row]);
  for (const [place, column] of columns.entries()) {
    if (fit[column]?.names !== true) continue;
    const names = elidedColumn(
      rows.slice(heads).map((row) => row[place]!),
      widths[place]!,
    );
    for (const [i, name] of names.entries()) shown[heads + i]![place] = name;
  }
  return shown;
}

/** A title that names a task of any length. */
export const titleLine = (title: string, { width }: View): string =>
  width === undefined ? title : elided(title, width);

function padded(cell: string, width: number, isRight: boolean): string {
  const text = cut(cell, width);
  const padding = " ".repeat(width - stringWidth(text));
  return isRight ? padding + text : text + padding;
}

/** The text in a width. Colours are kept to the end, so that the rest of the line does not take them. */
export function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  let shown = "";
  let room = width - 1;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colours begin with one.
  for (const part of text.match(/\u001b\[[\d;]*m|./gsu) ?? []) {
    const size = stringWidth(part);
    if (size === 0 && part.length > 1) shown += part;
    else if (room >= 0 && size <= room) {
      shown += part;
      room -= size;
    } else if (room >= 0) {
      shown += "…";
      room = -1;
    }
  }
  return shown;
}

/** The lines below a table: the number of rows, as in "3 handoffs", and the command for the next page if there is one. */
export function pageEnd(shown: string, next: string | undefined, { colors }: View): string[] {
  return next === undefined ? [shown] : [`${shown}; more with:`, `  ${colors.cyan(next)}`];
}
