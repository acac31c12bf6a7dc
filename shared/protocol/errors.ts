/**
 * The closed list of error codes, and the meaning of each to a caller, a shell and a web client.
 *
 * Two questions decide a code: who must act, and can a retry help? The text of an error is static, so that
 * failures can be counted by kind. Variable parts stand in `fields` (the place in the input, the expected
 * value) and `details`. All of them are free of secrets from the moment that the error is made, so every reply,
 * dead letter, log line and terminal is.
 */
import { LIMITS } from "./limits.ts";
import { boundedText, redact, redactedData } from "./redaction.ts";

export const ERROR_CODES = [
  "INVALID",
  "NOT_FOUND",
  "CONFLICT",
  "FINALIZED",
  "FENCED",
  "CORRUPT",
  "TOO_LARGE",
  "UNAUTHORIZED",
  "FORBIDDEN",
  "UNAVAILABLE",
  "UNSUPPORTED_VERSION",
  "EXPIRED",
  "TIMEOUT",
  "INTERNAL",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

interface ErrorMeaning {
  /** Whether the same request, sent again unchanged, can succeed. */
  readonly retryable: boolean;
  /** The exit code of the `fleet` command, from sysexits where one fits. */
  readonly exit: number;
  /** The HTTP status at the gateway. */
  readonly status: number;
  readonly meaning: string;
}

/** After TIMEOUT alone the command may have been applied: ask again with the same command id. */
export const ERROR_TABLE: Readonly<Record<ErrorCode, ErrorMeaning>> = {
  INVALID: { retryable: false, exit: 65, status: 400, meaning: "The input is wrong; `fields` says where." },
  NOT_FOUND: {
    retryable: false,
    exit: 4,
    status: 404,
    meaning: "There is no such checkpoint, version or task.",
  },
  CONFLICT: {
    retryable: false,
    exit: 5,
    status: 409,
    meaning: "The state is not the one that the caller expected.",
  },
  FINALIZED: { retryable: false, exit: 6, status: 409, meaning: "A finalized checkpoint never changes." },
  FENCED: {
    retryable: false,
    exit: 7,
    status: 409,
    meaning: "The task's ownership has changed, or its fence was not given.",
  },
  CORRUPT: {
    retryable: false,
    exit: 8,
    status: 500,
    meaning: "The stored bytes do not match their hash; quarantined.",
  },
  TOO_LARGE: { retryable: false, exit: 9, status: 413, meaning: "Over a size limit." },
  UNAUTHORIZED: { retryable: false, exit: 77, status: 401, meaning: "The caller is not known." },
  FORBIDDEN: { retryable: false, exit: 77, status: 403, meaning: "The caller may not do this." },
  UNAVAILABLE: {
    retryable: true,
    exit: 69,
    status: 503,
    meaning: "A required part is unavailable or overloaded.",
  },
  UNSUPPORTED_VERSION: {
    retryable: false,
    exit: 10,
    status: 400,
    meaning: "Made by a newer major version of Fleet.",
  },
  EXPIRED: {
    retryable: false,
    exit: 11,
    status: 410,
    meaning: "The command is too old to tell whether it was applied before.",
  },
  TIMEOUT: {
    retryable: true,
    exit: 75,
    status: 504,
    meaning: "No answer in time; the outcome is not known.",
  },
  INTERNAL: { retryable: false, exit: 70, status: 500, meaning: "A fault of Fleet itself; see its log." },
};

/** One problem of the input. `path` is dotted, as in `execution_state.phase` or `pending_items.3.title`. */
export interface FieldProblem {
  readonly path: string;
  readonly expected: string;
  readonly got?: string;
}

/** For logs: without the values that the caller has sent, which may be content. */
export function fieldsWithoutValues(
  fields: readonly FieldProblem[],
): Pick<FieldProblem, "path" | "expected">[] {
  return fields.map(({ path, expected }) => ({ path, expected }));
}

export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly fields?: readonly FieldProblem[];
  readonly details?: Readonly<Record<string, unknown>>;
  /** Milliseconds after which a retry makes sense. */
  readonly retry_after_ms?: number;
}

export interface FleetErrorOptions {
  fields?: readonly FieldProblem[];
  details?: Readonly<Record<string, unknown>>;
  retryAfterMs?: number;
  cause?: unknown;
}

/** The only error that services answer with and the SDK throws. */
export class FleetError extends Error {
  readonly code: ErrorCode;
  readonly fields: readonly FieldProblem[];
  readonly details: Readonly<Record<string, unknown>>;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, message: string, options: FleetErrorOptions = {}) {
    super(redact(message).text, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "FleetError";
    this.code = code;
    this.fields = (options.fields ?? []).map(redactedField);
    this.details = redactedData(options.details ?? {}, LIMITS.error_text_chars_max) as typeof this.details;
    this.retryAfterMs = options.retryAfterMs;
  }

  get retryable(): boolean {
    return ERROR_TABLE[this.code].retryable;
  }

  /** The exit code for a shell. */
  get exitCode(): number {
    return ERROR_TABLE[this.code].exit;
  }

  toBody(): ErrorBody {
    return {
      code: this.code,
      message: this.message,
      retryable: this.retryable,
      ...(this.fields.length > 0 && { fields: this.fields }),
      ...(Object.keys(this.details).length > 0 && { details: this.details }),
      ...(this.retryAfterMs !== undefined && { retry_after_ms: this.retryAfterMs }),
    };
  }

  static fromBody(body: ErrorBody): FleetError {
    const code = ERROR_CODES.includes(body.code) ? body.code : "INTERNAL";
    return new FleetError(code, body.message, {
      ...(body.fields && { fields: body.fields }),
      ...(body.details && { details: body.details }),
      ...(body.retry_after_ms !== undefined && { retryAfterMs: body.retry_after_ms }),
    });
  }
}

/** The path may contain a name that the caller chose. */
function redactedField(field: FieldProblem): FieldProblem {
  return {
    ...field,
    path: boundedText(field.path, LIMITS.error_field_chars_max),
    expected: boundedText(field.expected, LIMITS.error_text_chars_max),
    ...(field.got !== undefined && { got: boundedText(field.got, LIMITS.error_field_chars_max) }),
  };
}

/** Whether a service refused a write because the disk of its store is full. Its reads work. */
export function isStoreFull({ code, details: { disk_of: uses } }: FleetError): boolean {
  return code === "UNAVAILABLE" && Array.isArray(uses) && uses.includes("store");
}

/** An INVALID error about one field. */
export function invalid(path: string, expected: string, got?: unknown): FleetError {
  const field = got === undefined ? { path, expected } : { path, expected, got: shown(got) };
  return new FleetError("INVALID", "the input is not valid", { fields: [field] });
}

/** A short, safe rendering of a wrong value: its type where the value could be long or secret. */
export function shown(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return `array of ${value.length}`;
  if (typeof value === "string") {
    // Before the quotation marks, which hide the shape of a secret.
    return value.length <= 40 ? JSON.stringify(redact(value).text) : `string of ${value.length} characters`;
  }
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return typeof value;
}
