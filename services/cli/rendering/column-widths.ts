// Making a table fit a terminal: shorter forms first, then whole columns left out, the least important first, and only
// then cells cut with …: half an id is of no use, and a column can be had from --json. What may never be shortened, such as an id that people copy, simply says nothing here.

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
  const whole = attempt(rows, all, frame);
  if (whole.over <= 0) return whole;
  const brief = rows.map((row, r) =>
    r < frame.heads ? row : row.map((cell, column) => give[column]?.brief?.(cell) ?? cell),
  );
  const leaving = all
    .filter((column) => give[column]?.leaves !== undefined)
    .sort((a, b) => give[a]!.leaves! - give[b]!.leaves!);
  for (let left = 0; ; left += 1) {
    const gone = new Set(leaving.slice(0, left));
    const found = attempt(
      brief,
      all.filter((column) => !gone.has(column)),
      frame,
    );
    if (found.over <= 0) return found;
    if (left === leaving.length) return { ...found, widths: cut(found, give) };
  }
}

interface Attempt extends Fitted {
  readonly natural: readonly number[];
  /** Columns of the terminal that are missing. */
  readonly over: number;
}

function attempt(rows: Rows, columns: readonly number[], { width, gap, measure }: Frame): Attempt {
  const picked = rows.map((row) => columns.map((column) => row[column] ?? ""));
  const natural = measure(picked);
  const over = sum(natural) + gap * (columns.length - 1) - width;
  return { rows: picked, columns, widths: columns.map(() => null), natural, over };
}

/** From the right, because what stands in front says what a row is about. */
function cut({ columns, natural, over }: Attempt, give: readonly (Give | undefined)[]): (number | null)[] {
  let rest = over;
  const fromTheRight = columns.toReversed().map((column, i) => {
    const width = natural.at(-1 - i)!;
    const taken = Math.min(rest, Math.max(0, width - (give[column]?.least ?? width)));
    rest -= taken;
    return taken === 0 ? null : width - taken;
  });
  return fromTheRight.reverse();
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
