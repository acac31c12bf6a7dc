/** The entries of the reader: one for each answer with content, for each read of content that failed, and for each request that was refused. */
import type { Facts, ServiceRequest } from "../../../shared/bus/request/endpoint.ts";
import type { AccessEntry } from "../../../shared/protocol/access-log.ts";
import { type ErrorCode, FleetError } from "../../../shared/protocol/errors.ts";
import { type AnsweredOp, QUERY_OPS } from "../../../shared/protocol/operations.ts";
import type { QueryParams, QueryResults } from "../../../shared/protocol/queries.ts";
import { HEADERS, type QueryAddress } from "../../../shared/protocol/subjects.ts";
import { principalActor } from "../../../shared/records/audit/audit.ts";
import { readTrace } from "../../../shared/runtime/observability/trace-context.ts";
import type { AccessRecorder } from "../../../shared/service-host/access-log/access-recorder.ts";
import { askedFor, isContentRead, shownContent } from "./content-reads.ts";

const REFUSALS: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["FORBIDDEN", "UNAUTHORIZED"]);
/** There is no such thing, which a caller that guesses ids learns, or it is damaged. Other failures show nothing. */
const FAILURES: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["NOT_FOUND", "CORRUPT"]);
/** Read again and again by one caller: the parts of an artifact. */
const REPEATED: ReadonlySet<string> = new Set<AnsweredOp>(["artifact_read"]);
const REQUEST_ID = /^[0-9A-Za-z-]{1,64}$/;
const ADDRESS = /^[0-9A-Fa-f.:]{2,45}$/;

type Asked = Pick<ServiceRequest, "headers">;

export class ReadLog {
  readonly #recorder: AccessRecorder;
  readonly #now: () => number;

  constructor(recorder: AccessRecorder, now: () => number) {
    this.#recorder = recorder;
    this.#now = now;
  }

  /** The answer may leave when it resolves; undefined: at once. Rejects with UNAVAILABLE if the read must be logged first and cannot be. */
  answered<Op extends AnsweredOp>(
    op: Op,
    address: QueryAddress,
    request: Asked,
    { params, result }: { readonly params: QueryParams<Op>; readonly result: QueryResults[Op] },
  ): Promise<void> | undefined {
    if (!isContentRead(op) || !this.#recorder.isOn(address.tenant)) return undefined;
    const shown = shownContent(op, params, result);
    if (shown === null) return undefined;
    const entry: AccessEntry = { ...this.#begun(address, request), outcome: "ok", ...shown };
    return REPEATED.has(op)
      ? this.#recorder.readAgain(address.tenant, entry)
      : this.#recorder.read(address.tenant, entry);
  }

  /** The stream delivers the offer. A caller that waits for offers asks all the time. */
  forwarded(address: QueryAddress, request: Asked, agent_type: string): Promise<void> | undefined {
    const entry: AccessEntry = { ...this.#begun(address, request), outcome: "ok", agent_type };
    return this.#recorder.readAgain(address.tenant, entry);
  }

  failed(address: QueryAddress, request: Asked, { body, error }: { body: unknown; error: unknown }): void {
    if (!(error instanceof FleetError)) return;
    const isRefused = REFUSALS.has(error.code);
    if (!isRefused && !(FAILURES.has(error.code) && isContentRead(address.op))) return;
    this.#recorder.refused(address.tenant, {
      ...this.#begun(address, request),
      outcome: isRefused ? "denied" : "failed",
      reason: error.code,
      ...askedFor(body),
    });
  }

  #begun({ caller, op }: QueryAddress, { headers }: Asked): Pick<AccessEntry, "at" | "actor" | "op"> & Facts {
    const trace = readTrace(headers)?.traceId;
    const request = headers.get(HEADERS.request);
    const client = headers.get(HEADERS.client);
    return {
      at: new Date(this.#now()).toISOString(),
      actor: { ...principalActor(caller) },
      op: `query.${(QUERY_OPS as readonly string[]).includes(op) ? op : "unknown"}`,
      ...(trace !== undefined && { trace_id: trace }),
      ...(request !== undefined && REQUEST_ID.test(request) && { request_id: request }),
      ...(client !== undefined && ADDRESS.test(client) && { address: client }),
    };
  }
}
