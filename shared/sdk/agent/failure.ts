/** How a run failed, in the classes that recovery decides by, and who is told: a runner that watches the process, else the fleet. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { type ErrorCode, FleetError } from "../../protocol/errors.ts";
import { EXIT_CLASSES, EXIT_CODES, type FailureClass } from "../../protocol/exit-report.ts";
import type { ExitWord } from "../../protocol/runner-settings.ts";
import { StartupError } from "../../runtime/process/startup.ts";
import { reasonText } from "./messages.ts";
import type { WorkState } from "./state.ts";

export type Classify = (error: unknown) => FailureClass;

export interface Failure {
  readonly class: FailureClass;
  readonly details: string;
  /** Of a rate limit: when the vendor serves again. */
  readonly resetsAt: string | undefined;
}

const CLASS_OF_CODE: Readonly<Partial<Record<ErrorCode, FailureClass>>> = {
  CORRUPT: "corrupt_state",
  FORBIDDEN: "unrecoverable",
  TIMEOUT: "tool_error",
  UNAUTHORIZED: "unrecoverable",
  UNAVAILABLE: "tool_error",
  UNSUPPORTED_VERSION: "unrecoverable",
};

/** As the clients of the vendors of models mark their errors, with the status of HTTP. */
const CLASS_OF_STATUS: Readonly<Record<number, FailureClass>> = {
  401: "unrecoverable",
  402: "unrecoverable",
  403: "unrecoverable",
  429: "rate_limit",
};
const CONTEXT_CODE = "context_length_exceeded";

/** What is not known to be anything else is a crash. */
export function classOfError(error: unknown): FailureClass {
  if (error instanceof FleetError) return CLASS_OF_CODE[error.code] ?? "crash";
  if (error instanceof StartupError) return EXIT_CLASSES[error.exitCode] ?? "crash";
  const { status, code } = (typeof error === "object" && error !== null ? error : {}) as {
    readonly status?: unknown;
    readonly code?: unknown;
  };
  if (code === CONTEXT_CODE) return "context_exhausted";
  return CLASS_OF_STATUS[status as number] ?? "crash";
}

/** `metrics`: of the work, which may know when a rate limit ends. */
export function failureOf(
  error: unknown,
  classify: Classify = classOfError,
  metrics?: WorkState["metrics"],
): Failure {
  const failureClass = classify(error);
  return {
    class: failureClass,
    details: reasonText(error),
    resetsAt: failureClass === "rate_limit" ? metrics?.rate_limit?.resets_at : undefined,
  };
}

/** The last word of an agent to its runner: a file where there is one, and the exit code in any case. The first one counts. */
export class LastWord {
  readonly #file: string | undefined;
  #isSaid = false;

  constructor(file: string | undefined) {
    this.#file = file;
    // A program that is started once more must not end with the word of the time before.
    if (file !== undefined) rmSync(file, { force: true });
  }

  say({ class: failureClass, details, resetsAt }: Failure): void {
    if (this.#isSaid) return;
    this.#isSaid = true;
    endWith(EXIT_CODES[failureClass]);
    if (this.#file === undefined) return;
    const word: ExitWord = {
      class: failureClass,
      details,
      ...(resetsAt !== undefined && { resets_at: resetsAt }),
    };
    try {
      const part = `${this.#file}.part`;
      writeFileSync(part, JSON.stringify(word), { mode: 0o600 });
      renameSync(part, this.#file);
    } catch (error) {
      process.emitWarning(`what the agent says of its end could not be written: ${String(error)}`);
    }
  }
}

/** Unless the program chooses a code of its own: 0 and 1 are what it ends with when it says nothing. */
export function endWith(exitCode: number): void {
  process.once("exit", (code) => {
    if (code === 0 || code === 1) process.exitCode = exitCode;
  });
}
