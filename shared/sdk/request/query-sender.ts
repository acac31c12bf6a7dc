/** Sends queries to the reader. */
import { encodeBody } from "../../integrity/wire.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { AnsweredOp } from "../../protocol/operations.ts";
import type { QueryInput, QueryResults } from "../../protocol/queries.ts";
import { CONTENT_TYPES, SUBJECTS } from "../../protocol/subjects.ts";
import type { Clock } from "../../runtime/clock.ts";
import { withSpan } from "../../runtime/observability/tracing.ts";
import { type Camel, toSnake } from "../case-convert.ts";
import type { ClientConnection } from "./connection.ts";
import { type CallOptions, operationOf, requestUntilDeadline } from "./request.ts";

/** Queries that start something or change a record. */
const CHANGING: ReadonlySet<AnsweredOp> = new Set<AnsweredOp>([
  "index_rebuild",
  "scrub_start",
  "key_rotate",
  "encryption_rotate",
  "key_revoke",
  "export_record",
  "denial_record",
  "signer_revoke",
  "passkey_revoke",
  "dead_retry",
  "dead_drop",
  "alert_ack",
  "offer_settle",
  "artifact_begin",
  "artifact_part",
  "artifact_commit",
]);

export class QuerySender {
  readonly #connection: ClientConnection;
  readonly #clock: Clock;
  readonly #tenant: string;
  readonly #caller: string;

  constructor(
    connection: ClientConnection,
    clock: Clock,
    { tenant, agentId }: { readonly tenant: string; readonly agentId: string },
  ) {
    this.#connection = connection;
    this.#clock = clock;
    this.#tenant = tenant;
    this.#caller = agentId;
  }

  /** `query`: the parameters of the query, in camelCase, and the options of the call. `isFinal`: the answers after which it is not sent again. */
  async send<Op extends AnsweredOp>(
    op: Op,
    { deadlineMs, signal, ...query }: Camel<QueryInput<Op>> & CallOptions,
    isFinal?: (error: FleetError) => boolean,
  ): Promise<QueryResults[Op]> {
    const subject = SUBJECTS.query(this.#tenant, this.#caller, op);
    const body = encodeBody(toSnake(query), CONTENT_TYPES.json);
    const options = { deadlineMs, signal, changes: CHANGING.has(op), isFinal };
    const operation = operationOf(subject);
    const answer = await withSpan(
      operation,
      { "messaging.destination": operation },
      () => requestUntilDeadline(this.#connection.bus, this.#clock, subject, body, options),
      { kind: "client" },
    );
    return (answer as { readonly result: QueryResults[Op] }).result;
  }

  /** null instead of NOT_FOUND, but not for a checkpoint that was removed: then there was one. */
  async find<Op extends AnsweredOp>(
    op: Op,
    query: Camel<QueryInput<Op>> & CallOptions,
  ): Promise<QueryResults[Op] | null> {
    try {
      return await this.send(op, query);
    } catch (error) {
      if (error instanceof FleetError && error.code === "NOT_FOUND" && error.details.removed === undefined)
        return null;
      throw error;
    }
  }
}
