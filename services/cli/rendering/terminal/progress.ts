// A progress bar: one line that overwrites itself while a command waits.

import { count } from "./text.ts";
import type { View } from "./view.ts";

const BAR = 24;

/** Begins with a carriage return and clears the line. */
export function progressLine(
  { what, done, total }: { what: string; done: number; total: number },
  { colors }: View,
): string {
  const part = total === 0 ? 1 : Math.min(1, done / total);
  const full = Math.round(part * BAR);
  const bar = `${colors.green("█".repeat(full))}${colors.dim("░".repeat(BAR - full))}`;
  return `\r\u001b[K${what} ${bar} ${Math.floor(part * 100)}% (${count(done)} of ${count(total)})`;
}

export const PROGRESS_END = "\r\u001b[K";
