/** The requests of a caller to the fleet, over its own connection, with the names of the wire. */
import type { Outgoing } from "../../../shared/bus/bus.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { AnsweredOp, CommandOp } from "../../../shared/protocol/operations.ts";
import type { QueryResults } from "../../../shared/protocol/queries.ts";
import { HEADERS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import { requestOfAgent } from "../../../shared/sdk/client/agent-request.ts";
import type { Redaction } from "../../../shared/sdk/redaction/redaction.ts";
import { connectionOver } from "../../../shared/sdk/request/connection.ts";
import { requestUntilDeadline } from "../../../shared/sdk/request/request.ts";
import type { AdmittedCaller } from "../callers/pool.ts";
import { resultReader } from "./result-bytes.ts";

type Members = Readonly<Record<string, unknown>>;

export interface FleetAnswer {
  readonly status: string;
  readonly [member: string]: unknown;
}

export interface ReadResult {
  readonly json: Uint8Array;
  /** The other members of the result, if one was asked for. */
  readonly beside: Members;
}

/** The HTTP request that is carried out, for the access log. */
export interface StatedRequest {
  readonly id: string;
  /** Of the client. */
  readonly address: string;
}

export class FleetRequests {
  readonly caller: AdmittedCaller;
  readonly #headers: Outgoing["headers"];
  readonly #clock: Clock;
  readonly #signal: AbortSignal;
  readonly #redaction: Redaction | undefined;

  /** `signal`: the client has left. It ends queries only, since the outcome of a command must be known. */
  constructor(
    caller: AdmittedCaller,
    {
      clock,
      signal,
      redaction,
      request,
    }: {
      readonly clock: Clock;
      readonly request: StatedRequest;
      readonly signal: AbortSignal;
      /** Absent: secrets stay in commands. */
      readonly redaction?: Redaction | undefined;
    },
  ) {
    this.#redaction = redaction;
    this.#headers = { [HEADERS.request]: request.id, [HEADERS.client]: request.address };
    this.caller = caller;
    this.#clock = clock;
    this.#signal = signal;
  }

  /** `changes`: the query starts something or changes a record. */
  async ask<Op extends AnsweredOp>(
    op: Op,
    members: Members,
    { changes = false, deadlineMs }: { readonly changes?: boolean; readonly deadlineMs?: number } = {},
  ): Promise<QueryResults[Op]> {
    const { tenant, name } = this.caller;
    const signal = changes ? undefined : this.#signal;
    const answer = await this.#send(SUBJECTS.query(tenant, name, op), members, {
      changes,
      deadlineMs,
      signal,
    });
    return (answer as unknown as { readonly result: QueryResults[Op] }).result;
  }

  /** The result of a query, or its member `member`, as JSON: the bytes of the service, unless they have another form. */
  async read(op: AnsweredOp, members: Members, member?: string): Promise<ReadResult> {
    const { tenant, name } = this.caller;
    const peek = resultReader(member);
    const options = { changes: false, signal: this.#signal, peek };
    const answer = await this.#send(SUBJECTS.query(tenant, name, op), members, options);
    if (answer instanceof Uint8Array) return { json: answer, beside: {} };
    const { result } = answer as unknown as { readonly result: Members };
    if (member === undefined) return { json: Buffer.from(JSON.stringify(result)), beside: {} };
    const { [member]: record, ...beside } = result;
    return { json: Buffer.from(JSON.stringify(record)), beside };
  }

  /** The answer `committed` or `queued`. */
  async command(op: CommandOp, taskId: string, members: Members): Promise<FleetAnswer> {
    const { tenant, name } = this.caller;
    const subject = SUBJECTS.command(tenant, name, taskId, op);
    const clean = this.#redaction?.isOn(undefined)
      ? await this.#redaction.command(op, taskId, members)
      : { body: members, redacted: [] };
    try {
      const answer = await this.#send(subject, clean.body as Members, { changes: true });
      return clean.redacted.length === 0 ? answer : { ...answer, redacted: clean.redacted };
    } catch (error) {
      // The caller needs the id for a repetition.
      if (!(error instanceof FleetError) || error.code !== "TIMEOUT") throw error;
      const details = { ...error.details, command_id: members.command_id };
      throw new FleetError(error.code, error.message, { details, cause: error });
    }
  }

  requestAgent(agentId: string, op: "restart" | "inject"): Promise<void> {
    const { tenant, name: caller, bus } = this.caller;
    return requestOfAgent(connectionOver(bus), { tenant, caller, agentId, op });
  }

  async #send(
    subject: string,
    members: Members,
    options: Parameters<typeof requestUntilDeadline>[4],
  ): Promise<FleetAnswer> {
    const body = Buffer.from(JSON.stringify(members));
    const all = { ...options, headers: this.#headers };
    return (await requestUntilDeadline(this.caller.bus, this.#clock, subject, body, all)) as FleetAnswer;
  }
}
