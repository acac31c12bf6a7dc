/** What every request gets: a trace span, a log line, a metric, and an answer for each failure. */
import { randomUUID } from "node:crypto";
import { BusError } from "../../../shared/bus/bus.ts";
import { FleetError, fieldsWithoutValues } from "../../../shared/protocol/errors.ts";
import { withSpan } from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import { toFleetError } from "../../../shared/sdk/request/request.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { HttpError, problemAnswer } from "./problem.ts";

/** The status in logs of a request whose client has left; it is never sent. */
const CLIENT_LEFT = 499;

/** Further fields of the log line, which the work adds as it learns them. */
export type RequestFacts = Record<string, unknown>;

export type RequestRecorder = (
  operation: string,
  request: Request,
  work: (facts: RequestFacts) => Promise<HttpAnswer> | HttpAnswer,
) => Promise<HttpAnswer>;

/** The facts of an answered request are ids that its service has accepted, so the search for secrets would only cost time. */
const UNREDACTED = { redact: [], formatters: { log: (fields: object) => fields } };

export function requestRecorder(context: ServiceContext): RequestRecorder {
  const { log, clock } = context;
  const lines = log.child({}, UNREDACTED);
  const count = counter(context);
  return async (operation, request, work) => {
    const begin = clock.monotonic();
    const id = randomUUID();
    const known: RequestFacts = { request_id: id };
    let failure: FleetError | undefined;
    const answer = await withSpan(
      `${request.method} ${operation}`,
      { "http.request.method": request.method, "fleet.operation": operation },
      async (span) => {
        const made = await answered(work, known).catch((error: unknown) => {
          failure = fleetErrorOf(error);
          if (failure.code === "INTERNAL")
            log.error({ error, operation, request_id: id }, "request failed by a fault of the gateway");
          return problemAnswer(failure, id);
        });
        span.setAttribute("http.response.status_code", made.status);
        return made;
      },
      { parent: { get: (name) => request.headers.get(name) }, kind: "server" },
    );
    const { status } = answer;
    const ms = clock.monotonic() - begin;
    count(operation, status, ms);
    const facts = { operation, status, ms: Math.round(ms * 100) / 100, ...known };
    if (failure === undefined) lines.info(facts, "request answered");
    else log[status >= 500 ? "warn" : "info"]({ ...facts, ...reasonOf(failure) }, "request refused");
    return { ...answer, headers: { ...answer.headers, "x-request-id": id } };
  };
}

async function answered(
  work: (facts: RequestFacts) => Promise<HttpAnswer> | HttpAnswer,
  known: RequestFacts,
): Promise<HttpAnswer> {
  return work(known);
}

/** Looks up each pair of labels once, because the library hashes them at every call. */
function counter({ metrics }: ServiceContext): (operation: string, status: number, ms: number) => void {
  const known = new Map<string, (ms: number) => void>();
  return (op, code, ms) => {
    const name = `${op} ${code}`;
    let counted = known.get(name);
    if (counted === undefined) {
      const status = String(code);
      const total = metrics.gatewayRequestsTotal.labels({ op, status });
      const latency = metrics.gatewayLatencyMs.labels({ op, outcome: status });
      counted = (one) => {
        total.inc();
        latency.observe(one);
      };
      known.set(name, counted);
    }
    counted(ms);
  };
}

function reasonOf({ code, message, fields, details }: FleetError): object {
  return {
    code,
    reason: message,
    ...(fields.length > 0 && { fields: fieldsWithoutValues(fields) }),
    ...(Object.keys(details).length > 0 && { details }),
  };
}

function fleetErrorOf(error: unknown): FleetError {
  if (error instanceof FleetError) return error;
  if (error instanceof BusError) return toFleetError(error);
  // The client has left; its answer reaches no one.
  if ((error as { name?: unknown }).name === "AbortError")
    return new HttpError(CLIENT_LEFT, new FleetError("UNAVAILABLE", "the client has left"));
  return new FleetError("INTERNAL", "an unexpected failure; the log of the gateway has the details");
}
