/**
 * Asking until there is an answer: one request, sent again with the same bytes while nobody answers or the answer says that a retry
 * can help, until the caller's deadline. Because a command's id stays the same, asking twice has one effect.
 */
import { type Bus, BusError } from "../../bus/bus.ts";
import { decodeBody, encodeBody } from "../../integrity/wire.ts";
import { type ErrorBody, FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { CONTENT_TYPES, HEADERS } from "../../protocol/subjects.ts";
import type { Clock } from "../../runtime/clock.ts";
import { withSpan } from "../../runtime/observability/tracing.ts";
import { backoffMs } from "../../runtime/retry.ts";

export interface AskOptions {
  /** Milliseconds for the whole call, over all attempts. Default 5,000. */
  readonly deadlineMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

const BACKOFF = { baseMs: 20, maxMs: 500 } as const;
/** A last attempt shorter than this could only add load. */
export const ATTEMPT_MS_LEAST = 20;

/** `answered`: the error is a service's own word; else nobody said anything. */
export type Attempt =
  | { readonly answer: unknown }
  | { readonly again: FleetError; readonly answered: boolean };

/** The bus's trouble as the error that a caller of Fleet knows. */
export function refusal(error: BusError): FleetError {
  const { url } = error.details;
  const details = { bus: error.kind, ...(url !== undefined && { url }) };
  switch (error.kind) {
    case "too_large":
      return new FleetError("TOO_LARGE", "the request is larger than the bus accepts", {
        details,
        cause: error,
      });
    case "permission":
      return new FleetError("FORBIDDEN", "the bus does not permit this", { details, cause: error });
    case "timeout":
      return new FleetError("TIMEOUT", "no answer in time; the outcome is not known", {
        details,
        cause: error,
      });
    default:
      return new FleetError("UNAVAILABLE", "no Fleet service answers; is the fleet running?", {
        details,
        cause: error,
      });
  }
}

/** One request. Throws FleetError where asking again cannot help. */
export async function attempt(
  bus: Bus,
  subject: string,
  body: Uint8Array,
  timeoutMs: number,
): Promise<Attempt> {
  try {
    const message = await bus.request(subject, { body }, { timeoutMs });
    const answer = decodeBody(message.body, message.headers.get(HEADERS.contentType)) as {
      status: string;
      error: ErrorBody;
    };
    if (answer.status !== "error") return { answer };
    const error = FleetError.fromBody(answer.error);
    if (!error.retryable) throw error;
    return { again: error, answered: true };
  } catch (error) {
    if (!(error instanceof BusError)) throw error;
    if (!error.retryable) throw refusal(error);
    return { again: refusal(error), answered: false };
  }
}

/** Before attempt number `tries` + 1. Spread out: callers that were refused together must not come back together. */
export function pauseMs(tries: number, { retryAfterMs = 0 }: FleetError): number {
  return (retryAfterMs ?? 0) * (0.5 + Math.random()) + backoffMs(tries, BACKOFF);
}

/** The name under which calls of a subject are traced: without what differs from call to call. */
export const operationOf = (subject: string): string => subject.split(".").slice(0, 2).join(".");

/**
 * Throws FleetError. `effect`: whether the request changes something; then TIMEOUT when some attempt may have been carried out
 * without an answer, else a service's last word, which says more than its silence after it.
 */
export function ask<T>(
  { bus, clock }: { bus: Bus; clock: Clock },
  subject: string,
  request: Uint8Array | object,
  { effect, ...options }: AskOptions & { readonly effect: boolean },
): Promise<T> {
  const deadline = clock.monotonic() + (options.deadlineMs ?? LIMITS.request_deadline_ms_default);
  const body = request instanceof Uint8Array ? request : encodeBody(request, CONTENT_TYPES.json);
  const operation = operationOf(subject);
  return withSpan(
    operation,
    { "messaging.destination": operation },
    async () => {
      let preferred: FleetError | null = null;
      for (let tries = 1; ; tries += 1) {
        options.signal?.throwIfAborted();
        const left = Math.max(ATTEMPT_MS_LEAST, deadline - clock.monotonic());
        const result = await attempt(bus, subject, body, Math.min(left, LIMITS.request_attempt_ms_default));
        if ("answer" in result) return result.answer as T;
        if (effect ? result.again.code === "TIMEOUT" : result.answered) preferred = result.again;
        const pause = pauseMs(tries, result.again);
        if (clock.monotonic() + pause + ATTEMPT_MS_LEAST >= deadline) throw preferred ?? result.again;
        await clock.sleep(pause, options.signal);
      }
    },
    { kind: "client" },
  );
}
