// Making a table fit a terminal: shorter forms first, then cells cut with …, then whole columns left out, the least
// important first. What may never be shortened, such as an id that people copy, simply says nothing here.

/** What a column may give up. */
export interface Give {
  /** A shorter form of a cell. */
  readonly brief?: (cell: string) => string;
  /** Columns of the terminal that it needs at least; absent: its cells are never cut. */
  readonly least?: number;
  /** Its turn to be left out, from 1; absent: it stays. */
  readonly leaves?: number;
}

export type Rows = readonly (readonly string[])[];

export interface Fitted {
  readonly rows: Rows;
  /** For each column that is left, its place in the table before. */
  readonly columns: readonly number[];
  /** Widths to which columns are cut. */
  readonly widths: readonly (number | null)[];
}

export interface Frame {
  readonly width: number;
  readonly gap: number;
  /** Widths of a table's columns, as a terminal shows them. */
  readonly measure: (rows: Rows) => readonly number[];
  /** Rows at the top that have no shorter form. */
  readonly heads: number;
}

export function fitTable(rows: Rows, give: readonly (Give | undefined)[], frame: Frame): Fitted {
  const all = (rows[0] ?? []).map((_, column) => column);
  const leaving = all
    .filter((column) => give[column]?.leaves !== undefined)
    .sort((a, b) => give[a]!.leaves! - give[b]!.leaves!);
  for (let left = 0; ; left += 1) {
    const gone = new Set(leaving.slice(0, left));
    const columns = all.filter((column) => !gone.has(column));
    const found = attempt(rows, columns, give, frame);
    if (found.fits || left === leaving.length) return found;
  }
}

function attempt(
  rows: Rows,
  columns: readonly number[],
  give: readonly (Give | undefined)[],
  { width, gap, measure, heads }: Frame,
): Fitted & { readonly fits: boolean } {
  const room = width - gap * (columns.length - 1);
  const pick = (brief: boolean): Rows =>
    rows.map((row, r) =>
      columns.map((column) => {
        const cell = row[column] ?? "";
        return brief && r >= heads ? (give[column]?.brief?.(cell) ?? cell) : cell;
      }),
    );
  const whole = pick(false);
  const uncut = columns.map(() => null);
  if (sum(measure(whole)) <= room) return { rows: whole, columns, widths: uncut, fits: true };
  const brief = pick(true);
  const natural = measure(brief);
  const widths = cut(
    natural,
    columns.map((column) => give[column]),
    sum(natural) - room,
  );
  return {
    rows: brief,
    columns,
    widths: widths.map((to, i) => (to < natural[i]! ? to : null)),
    fits: sum(widths) <= room,
  };
}

/** Takes `over` from the columns that can be cut; those that would leave first are cut first. */
function cut(natural: readonly number[], give: readonly (Give | undefined)[], over: number): number[] {
  const widths = [...natural];
  const turn = (column: number) => give[column]?.leaves ?? Number.POSITIVE_INFINITY;
  const order = widths.map((_, column) => column).sort((a, b) => turn(a) - turn(b) || b - a);
  let rest = over;
  for (const column of order) {
    const spare = Math.max(0, widths[column]! - (give[column]?.least ?? widths[column]!));
    const taken = Math.min(spare, Math.max(0, rest));
    widths[column]! -= taken;
    rest -= taken;
  }
  return widths;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
