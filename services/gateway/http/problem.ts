/** Errors as Problem Details (RFC 9457), with the fleet's code, fields and details. */
import { ERROR_TABLE, FleetError } from "../../../shared/protocol/errors.ts";
import { TooManyRequests } from "../callers/authentication.ts";
import type { HttpAnswer } from "./http-answer.ts";

const TYPE = "application/problem+json";

/** An error of HTTP itself, with its status. */
export class HttpError extends FleetError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, error: FleetError, headers: Readonly<Record<string, string>> = {}) {
    const { code, message, fields, details } = error;
    super(code, message, { fields, details, cause: error });
    this.status = status;
    this.headers = headers;
  }
}

export function statusOf(error: FleetError): number {
  if (error instanceof HttpError) return error.status;
  return error instanceof TooManyRequests ? 429 : ERROR_TABLE[error.code].status;
}

export function problemAnswer(error: FleetError, requestId: string): HttpAnswer {
  const status = statusOf(error);
  const body = {
    type: `urn:fleet:problem:${error.code.toLowerCase()}`,
    title: ERROR_TABLE[error.code].meaning,
    status,
    detail: error.message,
    instance: `urn:fleet:request:${requestId}`,
    ...withoutMessage(error),
  };
  return { status, headers: headersOf(error, status), body: JSON.stringify(body) };
}

function withoutMessage(error: FleetError): object {
  const { message: _, ...rest } = error.toBody();
  return rest;
}

function headersOf(error: FleetError, status: number): Record<string, string> {
  return {
    "content-type": TYPE,
    "cache-control": "no-store",
    ...(error instanceof HttpError && error.headers),
    ...(status === 401 && { "www-authenticate": 'Bearer realm="fleet"' }),
    ...((status === 429 || status === 503) && {
      "retry-after": String(Math.max(1, Math.ceil((error.retryAfterMs ?? 0) / 1_000))),
    }),
  };
}
