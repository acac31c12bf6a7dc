/** What an entry of the access log has of each request: who has sent it, and which it was. */
import type { ServiceRequest } from "../../bus/request/endpoint.ts";
import { type AccessEntry, ADDRESS } from "../../protocol/access-log.ts";
import { HEADERS } from "../../protocol/subjects.ts";
import { principalActor } from "../../records/audit/audit.ts";
import { readTrace } from "../../runtime/observability/trace-context.ts";

const REQUEST_ID = /^[0-9A-Za-z-]{1,64}$/;

export interface LoggedRequest {
  readonly caller: string;
  /** Such as `query.get`. */
  readonly op: string;
  readonly nowMs: number;
}

type RequestMembers = Pick<AccessEntry, "at" | "actor" | "op" | "trace_id" | "request_id" | "address">;

export function requestEntry(
  { caller, op, nowMs }: LoggedRequest,
  { headers }: Pick<ServiceRequest, "headers">,
): RequestMembers {
  const trace = readTrace(headers)?.traceId;
  const request = headers.get(HEADERS.request);
  const client = headers.get(HEADERS.client);
  return {
    at: new Date(nowMs).toISOString(),
    actor: { ...principalActor(caller) },
    op,
    ...(trace !== undefined && { trace_id: trace }),
    ...(request !== undefined && REQUEST_ID.test(request) && { request_id: request }),
    ...(client !== undefined && ADDRESS.test(client) && { address: client }),
  };
}
