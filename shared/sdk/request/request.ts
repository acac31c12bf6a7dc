/**
 * One request to a service, repeated with the same bytes while it has no final answer. A command keeps its id over all attempts, so a
 * repeated command has one effect.
 */
import { type Bus, BusError, type BusErrorKind, type Outgoing } from "../../bus/bus.ts";
import { decodeAnswer } from "../../integrity/wire.ts";
import { type ErrorBody, FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { requireProtocol } from "../../protocol/protocol-version.ts";
import { HEADERS, operationIn } from "../../protocol/subjects.ts";
import type { Clock } from "../../runtime/clock.ts";
import { backoffMs } from "../../runtime/retry.ts";

export interface CallOptions {
  /** Milliseconds for the whole call, over all attempts. Default 5,000. */
  readonly deadlineMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const BACKOFF = { baseMs: 20, maxMs: 500 } as const;
/** A shorter last attempt would only add load. */
export const ATTEMPT_MS_MIN = 20;

/** An attempt that a repetition may cure. */
export interface FailedAttempt {
  readonly error: FleetError;
  /** True: a service answered with the error. False: no answer came. */
  readonly answered: boolean;
}

export interface RepeatedRequest {
  readonly bus: Bus;
  readonly clock: Clock;
  readonly subject: string;
  readonly body: Uint8Array;
  /** The longest wait for one answer. */
  readonly attemptMs: number;
  /** No attempt waits longer than until this time of the monotonic clock. */
  readonly end: number;
  readonly signal: AbortSignal | undefined;
  /** Whether an earlier request with the same bytes ended with an unknown outcome. Default: false. */
  readonly isOpen?: boolean | undefined;
  /** The answer as its bytes already tell it. undefined: it has to be decoded. */
  readonly peek?: ((answer: Uint8Array) => unknown) | undefined;
  readonly headers?: Outgoing["headers"] | undefined;
}

/**
 * Resolves with the answer, or with the first result of `onFailure`, which is called after each failed attempt with the time of the
 * next one and decides when to give up. Throws FleetError where a repetition cannot help.
 */
export async function repeatRequest<Result>(
  { bus, clock, subject, body, attemptMs, end, signal, ...rest }: RepeatedRequest,
  onFailure: (failed: FailedAttempt, nextAt: number) => Result | undefined | Promise<Result | undefined>,
): Promise<{ readonly answer: unknown } | Result> {
  const { peek, headers, isOpen = false } = rest;
  let isRepeated = isOpen;
  for (let attempts = 1; ; attempts += 1) {
    signal?.throwIfAborted();
    const left = Math.max(ATTEMPT_MS_MIN, end - clock.monotonic());
    const all = isRepeated ? { ...headers, [HEADERS.repeated]: "1" } : headers;
    const out = { body, ...(all !== undefined && { headers: all }) };
    const result = await requestOnce(bus, subject, out, Math.min(left, attemptMs), peek);
    if ("answer" in result) return result;
    isRepeated ||= result.error.code === "TIMEOUT";
    const nextAt = clock.monotonic() + pauseMs(attempts, result.error);
    const givenUp = await onFailure(result, nextAt);
    if (givenUp !== undefined) return givenUp;
    await clock.sleep(nextAt - clock.monotonic(), signal);
  }
}

interface RepeatedUntil {
  readonly changes: boolean;
  /** Whether the caller has another way after this answer, and does not wait for a better one. Default: never. */
  readonly isFinal?: ((error: FleetError) => boolean) | undefined;
}

/**
 * Repeats a request until its deadline. `changes`: the request changes something. It then throws TIMEOUT if an attempt without an answer
 * may have been carried out; otherwise the last error that a service answered, which says more than the silence after it.
 */
export async function requestUntilDeadline(
  bus: Bus,
  clock: Clock,
  subject: string,
  body: Uint8Array,
  {
    changes,
    deadlineMs,
    signal,
    isFinal,
    ...rest
  }: CallOptions & Pick<RepeatedRequest, "peek" | "headers" | "isOpen"> & RepeatedUntil,
): Promise<unknown> {
  const end = clock.monotonic() + (deadlineMs ?? LIMITS.request_deadline_ms_default);
  const attemptMs = LIMITS.request_attempt_ms_default;
  let preferred: FleetError | undefined;
  const { answer } = await repeatRequest<never>(
    { bus, clock, subject, body, attemptMs, end, signal, ...rest },
    ({ error, answered }, nextAt) => {
      if (answered && isFinal?.(error)) throw error;
      if (changes ? error.code === "TIMEOUT" : answered) preferred = error;
      if (nextAt + ATTEMPT_MS_MIN >= end) throw preferred ?? error;
      return undefined;
    },
  );
  return answer;
}

async function requestOnce(
  bus: Bus,
  subject: string,
  out: Outgoing,
  timeoutMs: number,
  peek: RepeatedRequest["peek"],
): Promise<{ readonly answer: unknown } | FailedAttempt> {
  try {
    const message = await bus.request(subject, out, { timeoutMs });
    requireProtocol(message.headers.get(HEADERS.protocol));
    const peeked = peek?.(message.body);
    if (peeked !== undefined) return { answer: peeked };
    const answer = decodeAnswer(message.body, message.headers.get(HEADERS.contentType)) as {
      status: string;
      error: ErrorBody;
    };
    if (answer.status !== "error") return { answer };
    const error = FleetError.fromBody(answer.error);
    if (!error.retryable) throw error;
    return { error, answered: true };
  } catch (error) {
    if (!(error instanceof BusError)) throw error;
    if (!error.retryable) throw toFleetError(error);
    return { error: toFleetError(error), answered: false };
  }
}

/** Random, so that callers that were refused together do not return together. */
function pauseMs(attempts: number, { retryAfterMs }: FleetError): number {
  return (retryAfterMs ?? 0) * (0.5 + Math.random()) + backoffMs(attempts, BACKOFF);
}

/** The name of a subject's requests in traces: the subject without the parts that differ between requests. */
export const operationOf = (subject: string): string => subject.split(".").slice(0, 2).join(".");

/** Without a next step, which a command prints in its own words. */
export const NO_ANSWER = "no Fleet service answers";

/** The error of a call that no Fleet service answered. A program that ends with it prints the next step. */
export function noAnswer(
  bus: BusErrorKind,
  { url, certificate }: BusError["details"],
  cause?: BusError,
): FleetError {
  const details = {
    bus,
    ...(url !== undefined && { url }),
    ...(certificate !== undefined && { certificate }),
  };
  if (certificate !== undefined)
    return new FleetError("UNAVAILABLE", "the certificate of the bus is not trusted", { details, cause });
  const next = "start a fleet (npm start), or set FLEET_URL to the address of a running one";
  return new FleetError("UNAVAILABLE", `${NO_ANSWER}; ${next}`, { details, cause });
}

const OTHER_FLEET = "another fleet answers at the recorded address; nothing was sent to it";

/** The first words of the message; the rest has the next step for a program. */
export const REFUSED_CREDENTIALS = "the bus refused the credentials";
const CREDENTIALS_HINT =
  "run as the user of the fleet with its FLEET_HOME, or set FLEET_NATS_CREDS to a file from `fleet access issue`";

/** What the credentials do not permit. Nothing for another subject than that of a request. */
function refusedOperation({ details: { subject } }: BusError): { readonly operation?: string } {
  const operation = typeof subject === "string" ? operationIn(subject) : undefined;
  return operation === undefined ? {} : { operation };
}

/** The error that callers of Fleet know for an error of the bus. */
export function toFleetError(error: BusError): FleetError {
  const { url } = error.details;
  const details = { bus: error.kind, ...(url !== undefined && { url }) };
  const options = { details, cause: error };
  switch (error.kind) {
    case "too_large":
      return new FleetError("TOO_LARGE", "the request is larger than the bus accepts", options);
    case "permission":
      // With an address, the connection itself was refused.
      if (url !== undefined)
        return new FleetError("UNAUTHORIZED", `${REFUSED_CREDENTIALS}; ${CREDENTIALS_HINT}`, options);
      return new FleetError("FORBIDDEN", "the bus does not permit this", {
        details: { ...details, ...refusedOperation(error) },
        cause: error,
      });
    case "other_fleet":
      return new FleetError("CONFLICT", OTHER_FLEET, {
        details: { ...error.details, bus: error.kind },
        cause: error,
      });
    case "timeout":
      return new FleetError("TIMEOUT", "no answer in time; the outcome is not known", options);
    default:
      return noAnswer(error.kind, error.details, error);
  }
}
