/**
 * How a command finds its way: to a writer, which answers `committed` or `queued`; where none answers, into the queue by ourselves;
 * where there is no bus, into the spool on this machine. The bytes and the id are the same on every way, so a command that went
 * two of them is applied once. What a writer refuses is refused: no other way is tried.
 */
import { type Bus, BusError } from "../../bus/bus.ts";
import { queueMessageId, requestHash } from "../../integrity/request-hash.ts";
import { decodeBody, encodeBody } from "../../integrity/wire.ts";
import type { CommandAnswer, QueuedAnswer } from "../../protocol/answers.ts";
import { COMMAND_SCHEMAS } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import {
  CONTENT_TYPES,
  type CommandOp,
  isQueuedOp,
  type QueuedOp,
  SUBJECTS,
} from "../../protocol/subjects.ts";
import { validate } from "../../protocol/validation.ts";
import type { Clock } from "../../runtime/clock.ts";
import { currentTraceparent, withSpan } from "../../runtime/observability/tracing.ts";
import type { Link } from "../request/connection.ts";
import {
  type AskOptions,
  ATTEMPT_MS_LEAST,
  ask,
  attempt,
  operationOf,
  pauseMs,
  refusal,
} from "../request/request.ts";
import type { SpooledCommand } from "../spool/line.ts";
import type { Spool } from "../spool/spool.ts";
import type { TaskOrder } from "./command-order.ts";

/** How far a command may go when no writer answers: nowhere, to the queue, or to the queue and then to this machine's disk. */
export type Fallback = "none" | "queue" | "spool";

export interface Command {
  readonly op: CommandOp;
  readonly taskId: string;
  readonly commandId: string;
  /** Everything but the id and the order. */
  readonly body: object;
}

type QueuedCommand = Command & { readonly op: QueuedOp };

export type Answer<A extends CommandAnswer> = A | QueuedAnswer | { readonly status: "spooled" };

export interface DeliveryParts {
  readonly link: Link;
  readonly clock: Clock;
  readonly tenant: string;
  readonly agentId: string;
  readonly fallback: Fallback;
  readonly order: TaskOrder;
  readonly spool: Spool | undefined;
}

/** Nobody answered. `sent`: some attempt may have been carried out all the same. */
interface Silence {
  readonly error: FleetError;
  readonly sent: boolean;
}

/** How long a writer may be away before the queue is used: about what one needs to restart, twice. */
const ABSENT_MS = 1_000;
/** How long the queue may take to acknowledge. */
const QUEUE_MS = 1_500;
/** These go behind nothing, so their being committed says nothing of what is queued either. */
const OVERTAKING: ReadonlySet<CommandOp> = new Set<CommandOp>(["take", "acknowledge"]);
/** While nobody has answered since the last command, the next ones do not wait for it again. */
const SILENT_MS = 200;

export class Delivery {
  readonly #parts: DeliveryParts;
  /** The last command got no answer, and none got one for as long as an attempt takes: too much work looks like silence to some. */
  #isSilent = false;
  #answeredAt = Number.NEGATIVE_INFINITY;
  #isQueueSilent = false;

  constructor(parts: DeliveryParts) {
    this.#parts = parts;
  }

  /** Throws FleetError; TIMEOUT alone leaves open whether the command was carried out. */
  async deliver<A extends CommandAnswer>(
    command: Command,
    options: AskOptions & { fallback?: Fallback | undefined },
  ): Promise<Answer<A>> {
    const { order } = this.#parts;
    const { op, taskId, commandId } = command;
    const fallback = options.fallback ?? this.#parts.fallback;
    const answer =
      fallback !== "none" && isQueuedOp(op)
        ? await this.#traced(command, () => this.#find<A>({ ...command, op }, options, fallback))
        : await this.#ask<A>(command, options);
    if (answer.status === "queued") {
      order.queued(taskId, commandId);
      // Before the caller goes on, perhaps in another process.
      await order.saved();
    }
    if (answer.status === "committed") order.committed(taskId, commandId);
    return answer;
  }

  #traced<T>(command: Command, run: () => Promise<T>): Promise<T> {
    const operation = operationOf(this.#subject(command));
    return withSpan(operation, { "messaging.destination": operation }, run, { kind: "client" });
  }

  /** What cannot be queued cannot go behind what waits here either: it waits itself, but for what makes the agent the owner. */
  async #ask<A extends CommandAnswer>(command: Command, options: AskOptions): Promise<A | QueuedAnswer> {
    const { link, clock } = this.#parts;
    const { op, taskId } = command;
    const waits = !OVERTAKING.has(op) && !isQueuedOp(op);
    if (waits && !(await this.#isNext(taskId, budgetMs(options)))) throw away();
    const asked = { ...options, effect: true };
    return ask({ bus: link.bus, clock }, this.#subject(command), this.#bytes(command), asked);
  }

  async #find<A extends CommandAnswer>(
    command: QueuedCommand,
    options: AskOptions,
    fallback: Fallback,
  ): Promise<Answer<A>> {
    const { link, clock, spool } = this.#parts;
    const budget = budgetMs(options);
    const end = clock.monotonic() + budget;
    options.signal?.throwIfAborted();
    const isNext = await this.#isNext(command.taskId, budget);
    const bytes = this.#bytes(command);
    let silence: Silence | undefined;
    if (isNext && link.isUp) {
      const result = await this.#askWriter<A>(command, bytes, { ...options, end, budget });
      if ("status" in result) return result;
      requireSound(command, bytes);
      silence = result;
      if (link.isUp) {
        const queued = await this.#queue(command, bytes, end, silence);
        if ("status" in queued) return queued;
        silence = queued;
      }
    }
    if (silence === undefined) requireSound(command, bytes);
    if (spool === undefined || fallback === "queue") throw silence?.error ?? away();
    return this.#spool(spool, command, bytes, silence);
  }

  /** Whether nothing of the task waits on this machine any more: sent past it, a command would be applied before it. */
  async #isNext(task: string, budget: number): Promise<boolean> {
    const { spool } = this.#parts;
    return spool?.holds(task) !== true || spool.settled(task, budget / 2);
  }

  /** Asks while a writer says that asking again can help, and for a moment while there is none. */
  async #askWriter<A extends CommandAnswer>(
    command: Command,
    bytes: Uint8Array,
    o: AskOptions & { end: number; budget: number },
  ): Promise<A | QueuedAnswer | Silence> {
    const { link, clock } = this.#parts;
    const subject = this.#subject(command);
    // Something of the time stays for the other ways.
    const end = o.end - Math.min(o.budget / 2, QUEUE_MS);
    const absentEnd = clock.monotonic() + (this.#isSilent ? 0 : Math.min(o.budget / 2, ABSENT_MS));
    const attemptMs = this.#isSilent ? SILENT_MS : LIMITS.request_attempt_ms_default;
    let unknown: FleetError | undefined;
    for (let tries = 1; ; tries += 1) {
      o.signal?.throwIfAborted();
      const left = Math.max(ATTEMPT_MS_LEAST, end - clock.monotonic());
      const result = await attempt(link.bus, subject, bytes, Math.min(left, attemptMs));
      this.#heard(result);
      if ("answer" in result) return result.answer as A | QueuedAnswer;
      const { again, answered } = result;
      if (again.code === "TIMEOUT") unknown = again;
      const next = clock.monotonic() + pauseMs(tries, again);
      // In the queue it keeps its place behind the other. Whoever waits first, to the end, gives the queue time to empty.
      const isBehind = again.details.after !== undefined;
      if (isBehind && next + ATTEMPT_MS_LEAST >= end) {
        await clock.sleep(Math.max(0, end - clock.monotonic()), o.signal);
        return { error: again, sent: unknown !== undefined };
      }
      if (answered && next + ATTEMPT_MS_LEAST >= o.end && unknown === undefined) throw again;
      const isAbsent = !answered && (again.code === "TIMEOUT" || next >= absentEnd || !link.isUp);
      if (isAbsent || next + ATTEMPT_MS_LEAST >= (answered ? o.end : end)) {
        return { error: unknown ?? again, sent: unknown !== undefined };
      }
      await clock.sleep(next - clock.monotonic(), o.signal);
    }
  }

  #heard(result: Awaited<ReturnType<typeof attempt>>): void {
    const now = this.#parts.clock.monotonic();
    if (!("again" in result) || result.answered) {
      this.#answeredAt = now;
      this.#isSilent = false;
    } else {
      const isLate = result.again.code === "TIMEOUT";
      this.#isSilent = !isLate || now - this.#answeredAt >= LIMITS.request_attempt_ms_default;
    }
  }

  /** Our own publish into the queue. */
  async #queue(
    command: QueuedCommand,
    bytes: Uint8Array,
    end: number,
    before: Silence,
  ): Promise<QueuedAnswer | Silence> {
    const { link, clock } = this.#parts;
    const left = Math.max(ATTEMPT_MS_LEAST, end - clock.monotonic());
    const timeoutMs = Math.min(left, this.#isQueueSilent ? SILENT_MS : QUEUE_MS);
    try {
      const position = await publish(link.bus, this.#address(command), bytes, timeoutMs);
      this.#isQueueSilent = false;
      const { commandId: command_id, taskId: task_id } = command;
      return { status: "queued", command_id, task_id, position };
    } catch (error) {
      if (!(error instanceof BusError)) throw error;
      this.#isQueueSilent = true;
      // After an attempt that may have been carried out no error may say that nothing happened.
      if (!error.retryable && !before.sent) throw refusal(error);
      if (before.sent) return before;
      const refused = refusal(error);
      return {
        error: error.kind === "stream_full" ? queueFull(error) : refused,
        sent: refused.code === "TIMEOUT",
      };
    }
  }

  async #spool(
    spool: Spool,
    command: QueuedCommand,
    body: Uint8Array,
    silence: Silence | undefined,
  ): Promise<{ status: "spooled" }> {
    const sent = silence?.sent ?? false;
    const at = this.#parts.clock.now();
    const { tenant, agentId } = this.#parts;
    const { op, taskId, commandId } = command;
    try {
      await spool.append({
        ...{ tenant, agentId, op, taskId, commandId, at, sent, body },
        traceparent: currentTraceparent(),
      });
      return { status: "spooled" };
    } catch (error) {
      if (sent && silence !== undefined) throw silence.error;
      throw error;
    }
  }

  #bytes({ op, body, commandId, taskId }: Command): Uint8Array {
    const after = OVERTAKING.has(op) ? undefined : this.#parts.order.after(taskId, commandId);
    const request = { command_id: commandId, ...body, ...(after !== undefined && { after }) };
    return encodeBody(request, CONTENT_TYPES.json);
  }

  #subject({ taskId, op }: Command): string {
    return SUBJECTS.command(this.#parts.tenant, this.#parts.agentId, taskId, op);
  }

  #address({ taskId, op, commandId }: QueuedCommand): Address {
    const { tenant, agentId } = this.#parts;
    return { tenant, agentId, taskId, op, commandId };
  }
}

type Address = Pick<SpooledCommand, "tenant" | "agentId" | "taskId" | "op" | "commandId" | "traceparent">;

/** Resolves with the place in the queue. Throws BusError; `timeout` when the queue may have it. */
export async function publish(
  bus: Bus,
  { tenant, agentId, taskId, op, commandId, traceparent }: Address,
  body: Uint8Array,
  timeoutMs: number,
): Promise<number> {
  const subject = SUBJECTS.queue(tenant, agentId, taskId, op);
  const headers = traceparent === undefined ? {} : { traceparent };
  const hash = requestHash({ tenant, agent: agentId, task: taskId, op }, body);
  const messageId = queueMessageId(commandId, hash);
  return (await bus.publishDurable(subject, { body, headers }, { messageId, timeoutMs })).seq;
}

/**
 * A command that nobody will answer must be one that can be applied, as far as that can be seen from here. Throws INVALID or
 * TOO_LARGE.
 */
function requireSound({ op }: Command, bytes: Uint8Array): void {
  const most = LIMITS.payload_bytes_max - LIMITS.queue_headers_bytes_max;
  if (bytes.length > most) {
    throw new FleetError("TOO_LARGE", "the command is too large for the queue", {
      fields: [{ path: "", expected: `at most ${most} bytes`, got: `${bytes.length} bytes` }],
    });
  }
  validate(COMMAND_SCHEMAS[op], decodeBody(bytes, CONTENT_TYPES.json));
}

const budgetMs = ({ deadlineMs = LIMITS.request_deadline_ms_default }: AskOptions): number => deadlineMs;

function away(): FleetError {
  return refusal(new BusError("unavailable"));
}

function queueFull(cause: BusError): FleetError {
  return new FleetError("UNAVAILABLE", "no writer answers and the queue is full", {
    details: { bus: cause.kind },
    cause,
  });
}
