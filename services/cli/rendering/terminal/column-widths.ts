// Making a table fit a terminal. Shorter forms of the cells come first, then whole columns are left out, the least
// important one first, and only then are cells cut with "…". Half an id is useless, and a column that is left out can be
// read with --json. A column that must never be shortened, such as an id that operators copy, has no rule here.

import stringWidth from "string-width";

/** How a column may shrink. */
export interface ColumnFit {
  /** The shorter form of a cell. */
  readonly brief?: (cell: string) => string;
  /** The width that it needs at least; absent: its cells are never cut. */
  readonly least?: number;
  /** The order in which columns are left out, from 1; absent: it always stays. */
  readonly leaves?: number;
}

export type Rows = readonly (readonly string[])[];

export interface FittedTable {
  readonly rows: Rows;
  /** The original place of each column that is left. */
  readonly columns: readonly number[];
  readonly widths: readonly number[];
}

export interface TableSpace {
  /** The columns of the terminal. */
  readonly width: number;
  /** The space between two columns. */
  readonly gap: number;
  /** The number of rows at the top that have no shorter form. */
  readonly heads: number;
}

export function fitTable(
  rows: Rows,
  fit: readonly (ColumnFit | undefined)[],
  space: TableSpace,
): FittedTable {
  const all = (rows[0] ?? []).map((_, column) => column);
  const whole = layOut(rows, all, space);
  if (whole.over <= 0) return whole;
  const brief = rows.map((row, r) =>
    r < space.heads ? row : row.map((cell, column) => fit[column]?.brief?.(cell) ?? cell),
  );
  const optional = all
    .filter((column) => fit[column]?.leaves !== undefined)
    .sort((a, b) => fit[a]!.leaves! - fit[b]!.leaves!);
  for (let left = 0; ; left += 1) {
    const omitted = new Set(optional.slice(0, left));
    const found = layOut(
      brief,
      all.filter((column) => !omitted.has(column)),
      space,
    );
    if (found.over <= 0) return found;
    if (left === optional.length) return { ...found, widths: cutWidths(found, fit) };
  }
}

interface Layout extends FittedTable {
  /** The columns of the terminal that are missing. */
  readonly over: number;
}

function layOut(rows: Rows, columns: readonly number[], { width, gap }: TableSpace): Layout {
  const picked = rows.map((row) => columns.map((column) => row[column] ?? ""));
  const widths = columns.map((_, place) => Math.max(...picked.map((row) => stringWidth(row[place]!))));
  const over = sum(widths) + gap * (columns.length - 1) - width;
  return { rows: picked, columns, widths, over };
}

/** Cuts from the right, because the first columns identify the row. */
function cutWidths({ columns, widths, over }: Layout, fit: readonly (ColumnFit | undefined)[]): number[] {
  let rest = over;
  const fromTheRight = columns.toReversed().map((column, i) => {
    const width = widths.at(-1 - i)!;
    const taken = Math.min(rest, Math.max(0, width - (fit[column]?.least ?? width)));
    rest -= taken;
    return width - taken;
  });
  return fromTheRight.reverse();
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
