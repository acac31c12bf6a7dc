/** The failure of a run: its class, which decides the recovery action, and the note for the runner that watches the process. */
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { type ErrorCode, FleetError } from "../../protocol/errors.ts";
import { EXIT_CLASSES, EXIT_CODES, type FailureClass } from "../../protocol/exit-report.ts";
import type { ExitWord } from "../../protocol/runner-settings.ts";
import { StartupError } from "../../runtime/process/startup.ts";
import { reasonText } from "./messages.ts";
import type { WorkState } from "./state.ts";

export type Classify = (error: unknown) => FailureClass;

export interface AgentFailure {
  readonly class: FailureClass;
  readonly details: string;
  /** The end of a rate limit, if it is known. */
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

/** The clients of model vendors put the HTTP status into their errors. */
const CLASS_OF_STATUS: Readonly<Record<number, FailureClass>> = {
  401: "unrecoverable",
  402: "unrecoverable",
  403: "unrecoverable",
  429: "rate_limit",
};
const CONTEXT_CODE = "context_length_exceeded";

/** Unclassified failures are crashes. */
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

/** `metrics`: those of the work, which may hold the end of a rate limit. */
export function agentFailureOf(
  error: unknown,
  classify: Classify = classOfError,
  metrics?: WorkState["metrics"],
): AgentFailure {
  const failureClass = classify(error);
  return {
    class: failureClass,
    details: reasonText(error),
    resetsAt: failureClass === "rate_limit" ? metrics?.rate_limit?.resets_at : undefined,
  };
}

/** Leaves the failure of an agent to its runner: by the exit code, and by a note in the exit file if there is one. */
export class ExitNote {
  readonly #file: string | undefined;
  #isWritten = false;

  constructor(file: string | undefined) {
    this.#file = file;
    // The note of an earlier start must not be read as this one's.
    if (file !== undefined) rmSync(file, { force: true });
  }

  /** Only the first failure counts. */
  write({ class: failureClass, details, resetsAt }: AgentFailure): void {
    if (this.#isWritten) return;
    this.#isWritten = true;
    setExitCode(EXIT_CODES[failureClass]);
    if (this.#file === undefined) return;
    const note: ExitWord = {
      class: failureClass,
      details,
      ...(resetsAt !== undefined && { resets_at: resetsAt }),
    };
    try {
      const part = `${this.#file}.part`;
      writeFileSync(part, JSON.stringify(note), { mode: 0o600 });
      renameSync(part, this.#file);
    } catch (error) {
      process.emitWarning(`the exit note could not be written: ${String(error)}`);
    }
  }
}

/** A program that chooses its own exit code keeps it; 0 and 1 are the codes of one that does not. */
export function setExitCode(exitCode: number): void {
  process.once("exit", (code) => {
    if (code === 0 || code === 1) process.exitCode = exitCode;
  });
}
