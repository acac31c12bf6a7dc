// Times for operators: absolute, and relative to now.

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** A duration in its two largest units, as in "3h 12m"; below a second in milliseconds. */
export function span(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))}ms`;
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at]!;
  const rest = UNITS[at + 1];
  const more = rest === undefined ? 0 : Math.floor((ms % size) / rest[1]);
  return `${Math.floor(ms / size)}${unit}${more > 0 ? ` ${more}${rest![0]}` : ""}`;
}

/** As in "5m ago". Clocks differ a little, so a time that is a moment ahead is "just now" too. */
export function ago(time: string, now: number): string {
  const ms = now - Date.parse(time);
  if (Number.isNaN(ms)) return "-";
  if (Math.abs(ms) < 1_000) return "just now";
  const largest = span(Math.abs(ms)).split(" ")[0]!;
  if (ms < 0) return Math.abs(ms) < 5_000 ? "just now" : `in ${largest}`;
  return `${largest} ago`;
}

/** The short form: "5m" for "5m ago". */
export function brieflyAgo(text: string): string {
  return text.replace(/ ago$/, "").replace(/^just now$/, "now");
}

/** The absolute time with the relative one. */
export function exactly(time: string, now: number): string {
  return `${time} (${ago(time, now)})`;
}
