// Tables without lines: columns two spaces apart, aligned by what a terminal shows, not by the length of the text.

import Table from "cli-table3";
import { fitTable, type Give, type Rows } from "./column-widths.ts";
import type { View } from "./view.ts";

const BARE = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
  middle: "  ",
};

/**
 * One line for each row, and the heads in front of them when there are any. `give`: what each column may give up on a
 * terminal that is too narrow; `indent`: columns of it that the caller needs.
 */
export function tableLines(
  rows: Rows,
  options: {
    readonly heads?: readonly string[];
    readonly view?: View;
    readonly right?: readonly number[];
    readonly give?: readonly (Give | undefined)[];
    readonly indent?: number;
  } = {},
): string[] {
  const { heads, view, right = [], give = [], indent = 0 } = options;
  const all = heads === undefined ? rows : [heads.map((head) => view?.colors.bold(head) ?? head), ...rows];
  if (all.length === 0) return [];
  const fitted = fitTable(all, give, {
    width: (view?.width ?? Number.POSITIVE_INFINITY) - indent,
    gap: BARE.middle.length,
    measure,
    heads: heads === undefined ? 0 : 1,
  });
  const table = bareTable(fitted.rows, fitted.widths);
  table.options.colAligns = fitted.columns.map((column) => (right.includes(column) ? "right" : "left"));
  // The last column needs no padding: it would wrap on a narrow terminal and be copied along.
  return table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd());
}

function bareTable(rows: Rows, widths: readonly (number | null)[]) {
  const table = new Table({
    chars: BARE,
    style: { "padding-left": 0, "padding-right": 0, head: [], border: [], compact: true },
    colWidths: [...widths],
  });
  for (const row of rows) table.push([...row]);
  return table;
}

/** The library's own measure: it knows colours and wide letters, and notes what it found while it lays a table out. */
function measure(rows: Rows): number[] {
  const table = bareTable(rows, []);
  table.toString();
  return table.options.colWidths.map((width) => width ?? 0);
}
