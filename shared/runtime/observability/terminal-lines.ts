// Log lines for a person at a terminal: time, level, service, text and fields, in colour.

import type { DestinationStream } from "pino";

const COLORS: Readonly<Record<string, number>> = {
  fatal: 41,
  error: 31,
  warn: 33,
  info: 32,
  debug: 36,
  trace: 90,
};
const RESET = "\u001b[0m";
/** Members of every line that a terminal does not need as fields. */
const OMITTED = new Set(["level", "time", "pid", "service", "msg"]);
const CONTROL = /\p{Cc}/gu;

/** Writes each JSON line to `destination` in readable form. */
export function terminalLines(destination: DestinationStream): DestinationStream {
  return { write: (line) => destination.write(readable(line)) };
}

function readable(line: string): string {
  const record = JSON.parse(line) as Record<string, unknown>;
  const { level, time, service, msg } = record;
  const error = (record.error ?? record.err) as { stack?: unknown } | undefined;
  const fields = Object.entries(record).filter(
    ([name]) => !OMITTED.has(name) && name !== "error" && name !== "err",
  );
  const head = `[${clock(String(time))}] ${colored(String(level))}: ${service}: ${plain(String(msg ?? ""))}`;
  const tail = fields.length > 0 ? ` ${plain(JSON.stringify(Object.fromEntries(fields)))}` : "";
  return `${head}${tail}${error === undefined ? "" : stackOf(error)}\n`;
}

function stackOf(error: { stack?: unknown }): string {
  const text = typeof error.stack === "string" ? error.stack : JSON.stringify(error);
  return text
    .split("\n")
    .map((row) => `\n    ${plain(row)}`)
    .join("");
}

/** Local time of day, to the millisecond. */
function clock(time: string): string {
  const date = new Date(time);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, "0")}`;
}

function colored(level: string): string {
  const color = COLORS[level];
  return color === undefined ? level.toUpperCase() : `\u001b[${color}m${level.toUpperCase()}${RESET}`;
}

/** Text from a command must not move the cursor of an operator's terminal. */
function plain(text: string): string {
  return text.replace(CONTROL, " ");
}
