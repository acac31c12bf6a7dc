/** What every request gets: a trace span, a log line, a metric, and an answer for each failure. */

import { BusError } from "../../../shared/bus/bus.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { withSpan } from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import { toFleetError } from "../../../shared/sdk/request/request.ts";
import { HttpError, problemResponse } from "./problem.ts";

/** The status in logs of a request whose client has left; it is never sent. */
const CLIENT_LEFT = 499;

/** Further fields of the log line, which the work adds as it learns them. */
export type RequestFacts = Record<string, unknown>;

export type RequestRecorder = (
  operation: string,
  request: Request,
  id: string,
  work: (facts: RequestFacts) => Promise<Response>,
) => Promise<Response>;

export function requestRecorder({ log, metrics, clock }: ServiceContext): RequestRecorder {
  return async (operation, request, id, work) => {
    const begin = clock.monotonic();
    const known: RequestFacts = {};
    let failure: FleetError | undefined;
    const response = await withSpan(
      `${request.method} ${operation}`,
      { "http.request.method": request.method, "fleet.operation": operation },
      async (span) => {
        try {
          const answer = await work(known);
          span.setAttribute("http.response.status_code", answer.status);
          return answer;
        } catch (error) {
          failure = fleetErrorOf(error);
          if (failure.code === "INTERNAL")
            log.error({ error, operation, request_id: id }, "request failed by a fault of the gateway");
          const answer = problemResponse(failure, id);
          span.setAttribute("http.response.status_code", answer.status);
          return answer;
        }
      },
      { parent: { get: (name) => request.headers.get(name) }, kind: "server" },
    );
    const ms = clock.monotonic() - begin;
    const status = String(response.status);
    metrics.gatewayRequestsTotal.inc({ op: operation, status });
    metrics.gatewayLatencyMs.observe({ op: operation, outcome: status }, ms);
    const facts = {
      operation,
      status: response.status,
      ms: Math.round(ms * 100) / 100,
      request_id: id,
      ...known,
    };
    if (failure === undefined) log.info(facts, "request answered");
    else log[response.status >= 500 ? "warn" : "info"]({ ...facts, ...reasonOf(failure) }, "request refused");
    response.headers.set("x-request-id", id);
    return response;
  };
}

function reasonOf({ code, message, fields, details }: FleetError): object {
  return {
    code,
    reason: message,
    ...(fields.length > 0 && { fields }),
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
