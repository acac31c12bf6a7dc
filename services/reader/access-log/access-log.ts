/** The entries of the reader: one for each answer with content or free text, for each read of content that failed, and for each request that was refused. */
import type { Message } from "../../../shared/bus/bus.ts";
import type { ServiceRequest } from "../../../shared/bus/request/endpoint.ts";
import type { AccessEntry } from "../../../shared/protocol/access-log.ts";
import { type ErrorCode, FleetError } from "../../../shared/protocol/errors.ts";
import { type AnsweredOp, QUERY_OPS } from "../../../shared/protocol/operations.ts";
import type { QueryParams, QueryResults } from "../../../shared/protocol/queries.ts";
import { callerOf, type QueryAddress } from "../../../shared/protocol/subjects.ts";
import type { AccessRecorder } from "../../../shared/service-host/access-log/access-recorder.ts";
import { requestEntry } from "../../../shared/service-host/access-log/request-entry.ts";
import { askedFor, isContentRead, shownContent } from "./content-reads.ts";
import { withoutTexts } from "./text-reads.ts";

const REFUSALS: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["FORBIDDEN", "UNAUTHORIZED"]);
/** There is no such thing, which a caller that guesses ids learns, or it is damaged. Other failures show nothing. */
const FAILURES: ReadonlySet<ErrorCode> = new Set<ErrorCode>(["NOT_FOUND", "CORRUPT"]);
/** Read again and again by one caller: the parts of an artifact, the state of a task, the pages of its trail, and the lists of a live view. */
const REPEATED: ReadonlySet<string> = new Set<AnsweredOp>([
  "artifact_read",
  "task",
  "audit",
  "tasks",
  "recoveries",
  "alerts",
  "alert",
  "handoffs",
  "dead_list",
]);

type Asked = Pick<ServiceRequest, "headers">;

export class ReadLog {
  readonly #recorder: AccessRecorder;
  readonly #now: () => number;

  constructor(recorder: AccessRecorder, now: () => number) {
    this.#recorder = recorder;
    this.#now = now;
  }

  /**
   * Resolves with the answer when it may leave; undefined: at once. If the read must be logged first and cannot be, that is the answer without
   * its texts, or it rejects with UNAVAILABLE.
   */
  answered<Op extends AnsweredOp>(
    op: Op,
    address: QueryAddress,
    request: Asked,
    { params, result }: { readonly params: QueryParams<Op>; readonly result: QueryResults[Op] },
  ): Promise<QueryResults[Op]> | undefined {
    if (!this.#recorder.isOn(address.tenant)) return undefined;
    const shown = shownContent(op, params, result);
    if (shown === null) return undefined;
    const entry: AccessEntry = { ...this.#begun(address, request), outcome: "ok", ...shown };
    const logged = REPEATED.has(op)
      ? this.#recorder.readAgain(address.tenant, entry)
      : this.#recorder.read(address.tenant, entry);
    return logged?.then(
      () => result,
      (error: unknown) => {
        const less = withoutTexts(op, result);
        if (less === undefined) throw error;
        return less;
      },
    );
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

  /** What the gateway, or the fleet itself, has refused before any service saw it. */
  reported(
    { tenant, caller, op }: QueryAddress,
    request: Asked,
    denials: QueryParams<"denial_record">["denials"],
  ): void {
    const { actor, request_id, address } = this.#begun({ tenant, caller, op }, request);
    const shared = { actor, ...(request_id !== undefined && { request_id }) };
    for (const { at, until, count, op: refused, reason, ...more } of denials) {
      const { task_id, credential, address: stated = address } = more;
      this.#recorder.refused(tenant, {
        ...{ ...shared, at, op: refused, outcome: "denied", reason },
        ...(until !== undefined && { until }),
        ...(count > 1 && { count }),
        ...(task_id !== undefined && { task_id }),
        ...(credential !== undefined && { credential }),
        ...(stated !== undefined && { address: stated }),
      });
    }
  }

  /** Its answer would have gone to another inbox than that of its caller. */
  dropped({ subject, headers }: Pick<Message, "subject" | "headers">): void {
    const from = callerOf(subject);
    if (from === undefined) return;
    const address = { ...from, op: subject.slice(subject.lastIndexOf(".") + 1) };
    const entry = this.#begun(address, { headers });
    this.#recorder.refused(from.tenant, { ...entry, outcome: "denied", reason: "foreign_reply" });
  }

  #begun({ caller, op }: QueryAddress, request: Asked): ReturnType<typeof requestEntry> {
    const known = (QUERY_OPS as readonly string[]).includes(op) ? op : "unknown";
    return requestEntry({ caller, op: `query.${known}`, nowMs: this.#now() }, request);
  }
}
