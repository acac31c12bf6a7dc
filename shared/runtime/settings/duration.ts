// Durations as operators write them (500ms, 2s, 5m, 1h, 7d) and as code uses them (milliseconds). A unit is
// required, because one operator reads "30" as seconds and the next as milliseconds.

const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Milliseconds, or undefined when the text is not a whole number with a unit. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d+)(ms|s|m|h|d)$/.exec(text);
  if (match === null) return undefined;
  const ms = Number(match[1]) * units[match[2] as keyof typeof units];
  return Number.isSafeInteger(ms) ? ms : undefined;
}

/** The shortest exact way to write a number of milliseconds: 60000 is "1m", 1500 is "1500ms". */
export function formatDuration(ms: number): string {
  for (const unit of ["d", "h", "m", "s"] as const) {
    if (ms !== 0 && ms % units[unit] === 0) return `${ms / units[unit]}${unit}`;
  }
  return `${ms}ms`;
}
