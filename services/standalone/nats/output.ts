/** The output of nats-server: forwarded to the log, and kept for the one line that explains a failed start. */
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { OLDEST_SERVER } from "../../../shared/bus/server-check.ts";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";

const KEPT_LINES = 20;

const CAUSES: readonly { pattern: RegExp; message: string; hint: string }[] = [
  {
    pattern: /address already in use/,
    message: "the port of the bus is taken",
    hint: "stop the program that uses it, or set FLEET_NATS_PORT",
  },
  {
    pattern: /no space left|insufficient storage/i,
    message: "the disk is full",
    hint: "free some space, or set FLEET_HOME to another folder",
  },
  {
    pattern: /permission denied/,
    message: "nats-server has no permission for its folder or port",
    hint: "check the owner of the folder",
  },
  {
    pattern: /unknown field|parse error/,
    message: "nats-server is too old for its settings",
    hint: `use nats-server ${OLDEST_SERVER} or newer`,
  },
];

export interface OutputListeners {
  /** Called with each line. */
  readonly onLine?: ((line: string) => void) | undefined;
  /** Called after each line that reports a problem. */
  readonly onTrouble?: (() => void) | undefined;
}

export class ServerOutput {
  readonly #lines: string[] = [];
  #ready = false;

  constructor(stream: Readable, log: Logger, { onLine, onTrouble }: OutputListeners) {
    createInterface({ input: stream }).on("line", (raw) => {
      const [, level = "INF", line = raw] = /^\[\d+\] \[(\w+)\] (.*)$/.exec(raw) ?? [];
      this.#lines.push(line);
      onLine?.(line);
      if (this.#lines.length > KEPT_LINES) this.#lines.shift();
      if (level === "WRN" || level === "ERR" || level === "FTL") {
        // Before it is ready, its messages become the one line of a failed start.
        (this.#ready ? log.warn : log.debug).call(log, { line }, "nats-server reports a problem");
        onTrouble?.();
      } else log.debug({ line }, "nats-server output");
    });
  }

  /** From now on its warnings are logged; they no longer explain a failed start. */
  ready(): void {
    this.#ready = true;
  }

  /** The reason of an exit, as far as the output contains it. */
  problem(details: Readonly<Record<string, unknown>>): StartupError {
    const text = this.#lines.join("\n");
    const cause = CAUSES.find(({ pattern }) => pattern.test(text));
    const last = this.#lines.at(-1);
    return new StartupError(cause?.message ?? "nats-server did not start", {
      exitCode: ERROR_TABLE.UNAVAILABLE.exit,
      details: cause === undefined ? { ...details, output: last } : details,
      hint: cause?.hint ?? "see its output above",
    });
  }
}
