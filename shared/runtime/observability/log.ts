// Structured logs: one JSON line per event with ISO time, level as a word, the service and fields; pretty for people
// at a terminal. Messages are static text, so events can be counted by message; everything that varies is a field.
// Fields that carry secrets are blotted out by name, one level deep.

import { createRequire } from "node:module";
import {
  type DestinationStream,
  destination as fileDestination,
  type LoggerOptions,
  pino,
  stdSerializers,
} from "pino";

export type Logger = import("pino").Logger;

export const logLevels = ["fatal", "error", "warn", "info", "debug", "trace", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];

export interface LogOptions {
  service: string;
  /** Default info. It can be changed later: `log.level = …` (child loggers made before keep theirs). */
  level?: LogLevel;
  /** Default: pretty when standard output is a terminal and no destination is given. */
  pretty?: boolean;
  /** Where lines go, by default standard output; a process whose output is its protocol passes process.stderr. */
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
    formatters: { level: (label) => ({ level: label }) },
    serializers: { error: stdSerializers.err, err: stdSerializers.err },
    redact: { paths: secretFields.flatMap((name) => [name, `*.${name}`]), censor: "[secret]" },
  };
  const forPeople = pretty ?? (destination === undefined && process.stdout.isTTY === true);
  if (!forPeople) return pino(options, destination ?? standardOutput());
  return pino(options, prettyStream(destination));
}

let output: DestinationStream | undefined;

/**
 * The lines of one turn of the event loop are written together, with one system call, at its end; and before the process exits, also
 * by a defect: the last line before a crash is the one that matters. Only SIGKILL in the middle of a turn loses that turn's lines.
 */
function standardOutput(): DestinationStream {
  if (output !== undefined) return output;
  const stream = fileDestination({ fd: 1, sync: true });
  let waiting = "";
  const flush = (): void => {
    const lines = waiting;
    waiting = "";
    if (lines !== "") stream.write(lines);
  };
  process.on("exit", flush);
  output = {
    write(line) {
      if (waiting === "") setImmediate(flush);
      waiting += line;
    },
  };
  return output;
}

function prettyStream(destination: DestinationStream | undefined): DestinationStream {
  // Loaded here, because only a terminal needs it. In this thread: a worker thread would lose the last lines.
  const prettyPino = createRequire(import.meta.url)("pino-pretty") as typeof import("pino-pretty");
  const target = destination === undefined ? 1 : (destination as NodeJS.WritableStream);
  return prettyPino({
    destination: target,
    sync: true,
    ignore: "pid,hostname,service",
    messageFormat: "{service}: {msg}",
    singleLine: true,
    translateTime: "SYS:HH:MM:ss.l",
    errorLikeObjectKeys: ["error", "err"],
  });
}
