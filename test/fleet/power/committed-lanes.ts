// The rows of `commits.program.ts`: lanes of commits at the same time. Commit n of a lane sets some rows to n, adds row n of a log, and
// removes the oldest row of the log, so that pages are freed and used again. Some rows are larger than a page.

import type { KeyRange, KeyValue } from "../../../shared/store/store.ts";

export const LANES = ["a", "b", "c"];
const LOG_ROWS = 12;
const STATE_ROWS = 12;
const LARGE_EVERY = 5;

const keyOf = (lane: string, name: string): Buffer => Buffer.from(`power/${lane}/${name}`);
const numbered = (n: number): string => String(n).padStart(8, "0");
const logRow = (lane: string, n: number) => ({
  key: keyOf(lane, `log/${numbered(n)}`),
  value: Buffer.alloc(n % LARGE_EVERY === 0 ? 6_000 + n : 200, `log ${n} `),
});
const stateRow = (lane: string, n: number, row: number) => ({
  key: keyOf(lane, `state/${numbered(row)}`),
  value: Buffer.alloc(150 + 30 * row, `${n} ${row} `),
});

export const laneRange = (lane: string): KeyRange => ({ begin: keyOf(lane, ""), end: keyOf(lane, "~") });

/** What commit n changes. */
export function changesOf(lane: string, n: number) {
  const state = Array.from({ length: STATE_ROWS }, (_, row) => stateRow(lane, n, row));
  return { set: [...state, logRow(lane, n)], clear: n > LOG_ROWS ? [logRow(lane, n - LOG_ROWS).key] : [] };
}

/** The number of commits that the rows of a lane have. Throws if they are not exactly those of its first commits. */
export function commitsIn(lane: string, rows: readonly KeyValue[]): number {
  if (rows.length === 0) return 0;
  const n = Number.parseInt(Buffer.from(rows.at(-1)!.value).toString(), 10);
  const first = Math.max(1, n - LOG_ROWS + 1);
  const log = Array.from({ length: Math.max(0, n - first + 1) }, (_, i) => logRow(lane, first + i));
  const whole = [...log, ...changesOf(lane, n).set.slice(0, STATE_ROWS)];
  const isWhole =
    rows.length === whole.length &&
    rows.every(({ key, value }, i) => whole[i]!.key.equals(key) && whole[i]!.value.equals(value));
  if (!isWhole) throw new Error(`the rows of lane ${lane} are not those of its first ${n} commits`);
  return n;
}
