// A point in time as operators write it: an ISO 8601 date or time, or a duration before now. Without a zone it is UTC, as
// Fleet prints it.

import { parseDuration } from "../../../shared/runtime/settings/duration.ts";
import { UsageError } from "../runtime/usage.ts";

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const TIME = /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(Z|[+-]\d{2}:?\d{2})?$/i;

/** The time in ISO 8601 with a zone, or undefined if the text is not a time. `now`: milliseconds since 1970. */
export function parseMoment(text: string, now: number): string | undefined {
  const trimmed = text.trim();
  if (trimmed === "now") return iso(now);
  const ago = parseDuration(trimmed.replace(/ ?ago$/, "").replace(/^-/, ""));
  if (ago !== undefined) return iso(now - ago);
  if (DATE.test(trimmed)) return exact(`${trimmed}T00:00:00Z`, trimmed);
  const match = TIME.exec(trimmed);
  if (match === null) return undefined;
  const [, date = "", time = "", zone = "Z"] = match;
  return exact(`${date}T${time}${zone.toUpperCase()}`, date);
}

/** Years outside 0 to 9999 have a form that no other part can read. */
function iso(ms: number): string | undefined {
  const date = new Date(ms);
  const text = Number.isNaN(date.getTime()) ? "" : date.toISOString();
  return /^\d{4}-/.test(text) ? text : undefined;
}

/** Refuses a day that its month does not have. Date would silently turn it into a day of the next month. */
function exact(text: string, day: string): string | undefined {
  const midnight = new Date(`${day}T00:00:00Z`);
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(day)) return undefined;
  return iso(Date.parse(text));
}

/** The time that an option gives, in ISO 8601; undefined: it is not given. */
export function momentOption(option: string, text: string | undefined, now: number): string | undefined {
  if (text === undefined) return undefined;
  const found = parseMoment(text, now);
  if (found !== undefined) return found;
  throw new UsageError(
    `${option} is not a time: ${text}`,
    "Give a duration before now (30m, 2h, 7d), a date or a time (2026-01-04, 2026-01-04T15:30Z).",
  );
}
