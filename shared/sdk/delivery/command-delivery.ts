/**
 * The delivery of a command: to a writer, which answers `committed` or `queued`; if none answers, into the queue by the client itself;
 * if there is no bus, into the spool on this machine. Bytes and id are the same each time, so a command that was delivered twice is
 * applied once. A writer's refusal is final: no other way is tried.
 */
import { uuidv7 } from "uuidv7";
import { BusError } from "../../bus/bus.ts";
import type { RedactedContent } from "../../integrity/redaction/content.ts";
import { decodeBody, encodeBody } from "../../integrity/wire.ts";
import type { CommandAnswers, QueuedAnswer } from "../../protocol/answers.ts";
import { COMMAND_SCHEMAS } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import { normalizeCheckpointId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type CommandOp, isQueuedOp, type QueuedOp } from "../../protocol/operations.ts";
import type { RedactedPart } from "../../protocol/redaction-report.ts";
import { CONTENT_TYPES, SUBJECTS } from "../../protocol/subjects.ts";
import { validate } from "../../protocol/validation.ts";
import type { Clock } from "../../runtime/clock.ts";
import { currentTraceparent, withSpan } from "../../runtime/observability/tracing.ts";
import type { RedactedCommand, Redaction } from "../redaction/redaction.ts";
import type { RedactionMode } from "../redaction/secret-settings.ts";
import type { ClientConnection } from "../request/connection.ts";
import { type CallOptions, operationOf, requestUntilDeadline, toFleetError } from "../request/request.ts";
import type { Spool } from "../spool/spool.ts";
import type { CommandOrder } from "./command-order.ts";
import { OpenCommands } from "./open-commands.ts";
import { CommandQueue, type QueueableCommand } from "./queue.ts";
import { type DeliveryFailure, WriterRequest } from "./writer-request.ts";

/** How far a command may go if no writer answers: nowhere, into the queue, or into the queue and then onto this machine's disk. */
export type Fallback = "none" | "queue" | "spool";

export interface DeliveryParts {
  readonly connection: ClientConnection;
  readonly clock: Clock;
  readonly tenant: string;
  readonly agentId: string;
  readonly fallback: Fallback;
  readonly order: CommandOrder;
  readonly spool: Spool | undefined;
  /** Absent: secrets stay in commands. */
  readonly redaction?: Redaction | undefined;
}

export interface CommandOptions extends CallOptions {
  /** Given by a caller that will repeat the command after a TIMEOUT. Default: a new UUIDv7. */
  readonly commandId?: string | undefined;
  /** The fence under which the caller owns the task. */
  readonly fence?: number | undefined;
  readonly expectedVersion?: number | undefined;
  /** Default: the `fallback` of `connect()`. */
  readonly fallback?: Fallback | undefined;
  /** `automatic`: secrets are removed unless the client has `redaction: "off"`. Default: as the client has it. */
  readonly redaction?: RedactionMode | undefined;
}

export interface DeliveryOptions extends CommandOptions {
  readonly expectedFence?: number | undefined;
  /** The agent for which an orchestrator or a runner accepts an offer. Default: the client's own agent. */
  readonly onBehalfOf?: string | undefined;
  /** Shortens the members, after the secrets are removed: of a secret that was cut, a part would stay. */
  readonly shorten?: ((body: object) => object) | undefined;
}

export interface SpooledAnswer {
  readonly status: "spooled";
  /** The folder of the spool. */
  readonly spool: string;
  readonly command_id: string;
  readonly task_id: string;
  readonly redacted?: readonly RedactedPart[];
}

export type DeliveryAnswer<Op extends CommandOp> = CommandAnswers[Op] | QueuedAnswer | SpooledAnswer;

interface Delivery<Op extends CommandOp> {
  readonly op: Op;
  readonly taskId: string;
  readonly commandId: string;
  readonly subject: string;
  /** The members of the command without its envelope. */
  readonly body: object;
  readonly options: DeliveryOptions;
  /** An earlier delivery ended with TIMEOUT. */
  readonly isOpen: boolean;
}

/** They are not ordered behind a queued command, so their answer says nothing about the queue. */
const OVERTAKING: ReadonlySet<CommandOp> = new Set<CommandOp>(["take", "acknowledge"]);

export class CommandDelivery {
  readonly #parts: DeliveryParts;
  readonly #writer: WriterRequest;
  readonly #queue: CommandQueue;
  readonly #open = new OpenCommands();

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
    this.#writer = new WriterRequest(parts.connection, parts.clock);
    this.#queue = new CommandQueue(parts.clock);
  }

  /** `content`: the members as on the wire. Throws FleetError; only after TIMEOUT is it unknown whether the command was carried out. */
  async deliver<Op extends CommandOp>(
    op: Op,
    taskId: string,
    content: object,
    options: DeliveryOptions,
  ): Promise<DeliveryAnswer<Op>> {
    const { order, tenant, agentId } = this.#parts;
    const { body, redacted } = await this.#withoutSecrets(op, taskId, content, options);
    // An id has one spelling on the wire, because a retry must repeat its bytes.
    const commandId = options.commandId === undefined ? uuidv7() : normalizeCheckpointId(options.commandId);
    const { onBehalfOf = agentId } = options;
    const subject =
      onBehalfOf === agentId
        ? SUBJECTS.command(tenant, agentId, taskId, op)
        : SUBJECTS.acceptance(tenant, agentId, taskId, onBehalfOf);
    const isOpen = this.#open.has(commandId);
    const delivery: Delivery<Op> = { op, taskId, commandId, subject, body, options, isOpen };
    const operation = operationOf(subject);
    try {
      const answer = await withSpan(
        operation,
        { "messaging.destination": operation },
        () => this.#route(delivery),
        { kind: "client" },
      );
      this.#open.ended(commandId, undefined);
      if (answer.status === "queued") {
        order.queued(taskId, commandId);
        // Saved before the caller continues, perhaps in another process.
        await order.saved();
      }
      if (answer.status === "committed") order.committed(taskId, commandId);
      return redacted.length === 0 ? answer : { ...answer, redacted };
    } catch (error) {
      this.#open.ended(commandId, error);
      throw withCommandId(error, commandId);
    }
  }

  /** For commands whose answer the caller needs: never queued by the client, never spooled. */
  async deliverNow<Op extends CommandOp>(
    op: Op,
    taskId: string,
    body: object,
    options: DeliveryOptions,
  ): Promise<CommandAnswers[Op]> {
    const answer = await this.deliver(op, taskId, body, { ...options, fallback: "none" });
    if (answer.status === "committed") return answer as CommandAnswers[Op];
    throw new FleetError("UNAVAILABLE", "the command is not carried out yet", { details: { op } });
  }

  /** Content that a command has in an encoded form, without its secrets. */
  async withoutSecrets<T>(content: T, wanted?: RedactionMode): Promise<RedactedContent<T>> {
    return (await this.#parts.redaction?.content(content, wanted)) ?? { content, report: [] };
  }

  async #withoutSecrets(
    op: CommandOp,
    taskId: string,
    content: object,
    { redaction: wanted, shorten }: DeliveryOptions,
  ): Promise<RedactedCommand> {
    const { redaction } = this.#parts;
    const clean =
      redaction === undefined
        ? { body: content, redacted: [] }
        : await redaction.command(op, taskId, content, wanted);
    return shorten === undefined ? clean : { ...clean, body: shorten(clean.body) };
  }

  #route<Op extends CommandOp>(delivery: Delivery<Op>): Promise<DeliveryAnswer<Op>> {
    const fallback = delivery.options.fallback ?? this.#parts.fallback;
    return fallback !== "none" && isQueueable(delivery)
      ? this.#deliverQueueable(delivery, fallback)
      : this.#deliverToWriter(delivery);
  }

  /**
   * A command that cannot be queued cannot be spooled behind the task's commands on this machine either: it waits until they are sent.
   * The commands that make the agent the owner do not wait.
   */
  async #deliverToWriter<Op extends CommandOp>(delivery: Delivery<Op>): Promise<DeliveryAnswer<Op>> {
    const { connection, clock } = this.#parts;
    const { op, taskId, subject, options, isOpen } = delivery;
    const waits = !OVERTAKING.has(op) && !isQueuedOp(op);
    if (waits && !(await this.#isNext(taskId, budgetMs(options)))) throw noService();
    const answer = await requestUntilDeadline(connection.bus, clock, subject, this.#bytes(delivery), {
      deadlineMs: options.deadlineMs,
      signal: options.signal,
      changes: true,
      isOpen,
    });
    return answer as DeliveryAnswer<Op>;
  }

  async #deliverQueueable<Op extends QueuedOp>(
    delivery: Delivery<Op>,
    fallback: Fallback,
  ): Promise<DeliveryAnswer<Op>> {
    const { connection, clock, spool } = this.#parts;
    const { taskId, subject, isOpen } = delivery;
    const { signal } = delivery.options;
    const budget = budgetMs(delivery.options);
    const end = clock.monotonic() + budget;
    signal?.throwIfAborted();
    const isNext = await this.#isNext(taskId, budget);
    const bytes = this.#bytes(delivery);
    let failure: DeliveryFailure | undefined;
    if (isNext && connection.isUp) {
      const result = await this.#writer.send(connection.bus, subject, bytes, { budget, end, signal, isOpen });
      if ("answer" in result) return result.answer as DeliveryAnswer<Op>;
      failure = result;
    }
    checkQueueable(delivery.op, bytes);
    const command = this.#command(delivery);
    if (failure !== undefined && connection.isUp) {
      const queued = await this.#queue.add(connection.bus, command, bytes, end, failure);
      if ("status" in queued) return queued;
      failure = queued;
    }
    if (spool === undefined || fallback === "queue") throw failure?.error ?? noService();
    return this.#addToSpool(spool, command, bytes, failure);
  }

  /** True once no command of the task waits in the spool: one that is sent past them would be applied before them. */
  #isNext(taskId: string, budget: number): boolean | Promise<boolean> {
    const { spool } = this.#parts;
    return spool?.holds(taskId) !== true || spool.settled(taskId, budget / 2);
  }

  async #addToSpool(
    spool: Spool,
    command: QueueableCommand,
    body: Uint8Array,
    failure: DeliveryFailure | undefined,
  ): Promise<SpooledAnswer> {
    const sent = failure?.sent ?? false;
    const at = this.#parts.clock.now();
    try {
      await spool.append({ ...command, at, sent, body, traceparent: currentTraceparent() });
      return { status: "spooled", command_id: command.commandId, task_id: command.taskId, spool: spool.path };
    } catch (error) {
      if (sent && failure !== undefined) throw failure.error;
      throw error;
    }
  }

  #bytes({ op, body, commandId, taskId, options }: Delivery<CommandOp>): Uint8Array {
    const request = {
      command_id: commandId,
      ...body,
      fence: options.fence,
      expected_version: options.expectedVersion,
      expected_fence: options.expectedFence,
      after: OVERTAKING.has(op) ? undefined : this.#parts.order.after(taskId, commandId),
    };
    return encodeBody(request, CONTENT_TYPES.json);
  }

  #command({ op, taskId, commandId }: Delivery<QueuedOp>): QueueableCommand {
    const { tenant, agentId } = this.#parts;
    return { tenant, agentId, taskId, op, commandId };
  }
}

function isQueueable<Op extends CommandOp>(delivery: Delivery<Op>): delivery is Delivery<Op & QueuedOp> {
  return isQueuedOp(delivery.op);
}

/** A command that no writer answers must be applicable, as far as the client can tell. Throws INVALID or TOO_LARGE. */
function checkQueueable(op: QueuedOp, bytes: Uint8Array): void {
  const bytesMax = LIMITS.payload_bytes_max - LIMITS.queue_headers_bytes_max;
  if (bytes.length > bytesMax) {
    throw new FleetError("TOO_LARGE", "the command is too large for the queue", {
      fields: [{ path: "", expected: `at most ${bytesMax} bytes`, got: `${bytes.length} bytes` }],
    });
  }
  validate(COMMAND_SCHEMAS[op], decodeBody(bytes, CONTENT_TYPES.json));
}

const budgetMs = ({ deadlineMs = LIMITS.request_deadline_ms_default }: CallOptions): number => deadlineMs;

const noService = (): FleetError => toFleetError(new BusError("unavailable"));

/** After TIMEOUT the caller may repeat the command and needs its id. */
function withCommandId(error: unknown, commandId: string): unknown {
  if (!(error instanceof FleetError) || error.code !== "TIMEOUT") return error;
  return new FleetError(error.code, error.message, {
    fields: error.fields,
    details: { ...error.details, command_id: commandId },
    cause: error,
  });
}
