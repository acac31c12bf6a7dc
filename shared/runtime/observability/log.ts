// Structured logs: one JSON line per event with ISO time, level as a word, the service and fields; readable
// lines on a terminal. Messages are static text, so events can be counted by message; everything that varies
// is a field. Fields that carry secrets are redacted by name, one level deep. Secrets in texts are redacted by
// their shapes.

import {
  type DestinationStream,
  destination as fileDestination,
  type LoggerOptions,
  pino,
  stdSerializers,
} from "pino";
import { redactedData } from "../../protocol/redaction.ts";
import { terminalLines } from "./terminal-lines.ts";

export type Logger = import("pino").Logger;

export const logLevels = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

export interface LogOptions {
  service: string;
  /** Default info. It can be changed later with `log.level = …`; earlier child loggers keep their level. */
  level?: LogLevel;
  /** Default: pretty when standard output is a terminal and no destination is given. */
  pretty?: boolean;
  /** Default standard output. A process whose standard output is its protocol passes process.stderr. */
  destination?: DestinationStream;
}

const secretFields = [
  "api_key",
  "apiKey",
  "authorization",
  "cookie",
  "credentials",
  "jwt",
  "nkey",
  "passphrase",
  "password",
  "private_key",
  "privateKey",
  "secret",
  "seed",
  "token",
];

export function createLogger({ service, level = "info", pretty, destination }: LogOptions): Logger {
  const options: LoggerOptions = {
    level,
    base: { service, pid: process.pid },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: {
      level: (label) => ({ level: label }),
      log: (fields) => redactedData(fields) as Record<string, unknown>,
    },
    serializers: { error: redactedError, err: redactedError },
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: "[secret]" },
  };
  const isPretty = pretty ?? (destination === undefined && process.stdout.isTTY === true);
  if (!isPretty) return pino(options, destination ?? standardOutput());
  return pino(options, terminalLines(destination ?? standardOutput()));
}

/** The stack may contain the messages of causes, and these the input. */
function redactedError(error: unknown): unknown {
  return redactedData({ ...stdSerializers.err(error as Error) });
}

let output: DestinationStream | undefined;

/**
 * Writes the lines of one turn of the event loop together, with one system call, at the end of the turn. It
 * also writes before the process exits, even by a defect: the last line before a crash is the one that
 * matters. Only SIGKILL in the middle of a turn loses the lines of that turn.
 */
function standardOutput(): DestinationStream {
  if (output !== undefined) return output;
  const stream = fileDestination({ fd: 1, sync: true });
  let pending = "";
  const flush = (): void => {
    const lines = pending;
    pending = "";
    if (lines !== "") stream.write(lines);
  };
  process.on("exit", flush);
  output = {
    write(line) {
      if (pending === "") setImmediate(flush);
      pending += line;
    },
  };
  return output;
}
