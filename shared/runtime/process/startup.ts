// A start-up problem is one that the operator can fix: a wrong setting, a taken port, a missing server. It
// ends in one clear line and an exit code, never in a stack trace. The text is static, the facts are fields,
// and the hint says what to do next.

import type { FleetError } from "../../protocol/errors.ts";

/** Exit codes of a fleet process, after sysexits.h, so that a supervisor can distinguish them. */
export const exitCodes = {
  startup: 1,
  usage: 64,
  unavailable: 69,
  software: 70,
  cannotCreate: 73,
  config: 78,
} as const;

export type Details = Readonly<Record<string, unknown>>;

export interface StartupErrorOptions {
  details?: Details;
  /** The next thing to do, as an instruction: "start NATS with: …". */
  hint?: string;
  exitCode?: number;
  cause?: unknown;
}

export class StartupError extends Error {
  override readonly name: string = "StartupError";
  readonly exitCode: number;
  readonly details: Details;
  readonly hint: string | undefined;

  constructor(message: string, options: StartupErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.exitCode = options.exitCode ?? exitCodes.startup;
    this.details = options.details ?? {};
    this.hint = options.hint;
  }
}

/** A refusal of Fleet as a problem of the start, with the exit code and the code of its error. */
export function refusedStart(error: FleetError, facts: Details = {}): StartupError {
  const { code, details, exitCode } = error;
  const needs = details.needs === undefined ? "the version of Fleet that wrote it" : `Fleet ${details.needs}`;
  return new StartupError(error.message, {
    exitCode,
    details: { code, ...facts, ...details },
    ...(code === "UNSUPPORTED_VERSION" && {
      hint: `use ${needs} or a newer one; to return to this version, restore a backup that it made`,
    }),
    cause: error,
  });
}

/**
 * The text to print for a start-up problem; undefined for any other error: that is a defect, shown with its
 * stack.
 */
export function startupProblemOf(error: unknown): { text: string; exitCode: number } | undefined {
  if (!(error instanceof Error)) return undefined;
  if (error instanceof StartupError) {
    return { text: sentence(error.message, error.details, error.hint), exitCode: error.exitCode };
  }
  // Layers that may not import this file mark their errors with a plain field instead of this class.
  const { startupProblem, details, hint, exitCode } = error as Error & Record<string, unknown>;
  if (typeof startupProblem !== "string") return undefined;
  return {
    text: sentence(
      startupProblem,
      typeof details === "object" && details !== null ? (details as Details) : {},
      typeof hint === "string" ? hint : undefined,
    ),
    exitCode: typeof exitCode === "number" ? exitCode : exitCodes.startup,
  };
}

function sentence(text: string, details: Details, hint: string | undefined): string {
  const facts = Object.entries(details)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  return `${text}${facts.length > 0 ? ` (${facts.join(", ")})` : ""}${hint === undefined ? "" : `; ${hint}`}`;
}
