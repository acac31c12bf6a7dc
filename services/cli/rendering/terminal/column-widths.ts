// Making a table fit a terminal. Shorter forms of the cells come first, then whole columns are left out, the least
// important one first, then ids get a form that commands accept, and only then are cells cut with "…": texts at their end,
// names in their middle. A column that is left out can be read with --json. A column without a rule is never shortened.

import stringWidth from "string-width";

/** How a column may shrink. */
export interface ColumnFit {
  /** The shorter form of a cell. */
  readonly brief?: (cell: string) => string;
  /** The form of its ids that commands accept, if leaving columns out is not enough. */
  readonly id?: (cell: string) => string;
  /** The width that it needs at least; absent: its cells are never cut. */
  readonly least?: number;
  /** Its cells are names. They are cut after the texts and in the middle, the longest column first. */
  readonly names?: true;
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
  const inForm = (form: (cell: string, column: number) => string): Rows =>
    rows.map((row, r) => (r < space.heads ? row : row.map(form)));
  const brief = inForm((cell, column) => fit[column]?.brief?.(cell) ?? cell);
  const briefest = inForm((cell, column) => fit[column]?.id?.(cell) ?? fit[column]?.brief?.(cell) ?? cell);
  const optional = all
    .filter((column) => fit[column]?.leaves !== undefined)
    .sort((a, b) => fit[a]!.leaves! - fit[b]!.leaves!);
  const without = (form: Rows, left: number): Layout => {
    const omitted = new Set(optional.slice(0, left));
    const columns = all.filter((column) => !omitted.has(column));
    return layOut(form, columns, space);
  };
  for (const form of [brief, briefest]) {
    for (let left = 0; left <= optional.length; left += 1) {
      const found = without(form, left);
      if (found.over <= 0) return found;
    }
  }
  const least = without(briefest, optional.length);
  return { ...least, widths: cutWidths(least, fit) };
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

/** Texts are cut from the right, because the first columns identify the row. Of the names, the owner stays whole if it is short. */
function cutWidths({ columns, widths, over }: Layout, fit: readonly (ColumnFit | undefined)[]): number[] {
  const cut = [...widths];
  const leastOf = (place: number): number => fit[columns[place]!]?.least ?? cut[place]!;
  const isName = (place: number): boolean => fit[columns[place]!]?.names === true;
  let rest = over;
  for (const place of [...columns.keys()].reverse()) {
    if (isName(place)) continue;
    const taken = Math.min(rest, Math.max(0, cut[place]! - leastOf(place)));
    rest -= taken;
    cut[place]! -= taken;
  }
  for (; rest > 0; rest -= 1) {
    const places = cut.flatMap((width, place) => (isName(place) && width > leastOf(place) ? [place] : []));
    if (places.length === 0) break;
    cut[places.reduce((a, b) => (cut[b]! > cut[a]! ? b : a))]! -= 1;
  }
  return cut;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
