// Tables without lines: columns two spaces apart, aligned by what a terminal shows, not by the length of the text.

import Table from "cli-table3";
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

/** One line for each row, and the heads in front of them when there are any. */
export function tableLines(
  rows: readonly (readonly string[])[],
  options: {
    readonly heads?: readonly string[];
    readonly view?: View;
    readonly right?: readonly number[];
  } = {},
): string[] {
  const { heads, view, right = [] } = options;
  const all = heads === undefined ? rows : [heads.map((head) => view?.colors.bold(head) ?? head), ...rows];
  if (all.length === 0) return [];
  const table = new Table({
    chars: BARE,
    style: { "padding-left": 0, "padding-right": 0, head: [], border: [], compact: true },
    colAligns: (all[0] ?? []).map((_, i) => (right.includes(i) ? "right" : "left")),
  });
  for (const row of all) table.push([...row]);
  // The last column needs no padding: it would wrap on a narrow terminal and be copied along.
  return table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd());
}
