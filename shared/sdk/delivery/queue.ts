/** A command published into the queue by the client itself, because no writer answers. */
import { type Bus, BusError } from "../../bus/bus.ts";
import { queueMessageId, requestHash } from "../../integrity/request-hash.ts";
import type { QueuedAnswer } from "../../protocol/answers.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { QueuedOp } from "../../protocol/operations.ts";
import { SUBJECTS } from "../../protocol/subjects.ts";
import type { Clock } from "../../runtime/clock.ts";
import { ATTEMPT_MS_MIN, toFleetError } from "../request/request.ts";
import { type DeliveryFailure, QUEUE_MS, SILENT_MS } from "./writer-request.ts";

/** A command with the agent that sends it. The bytes that are stored for it are separate. */
export interface QueueableCommand {
  readonly tenant: string;
  readonly agentId: string;
  readonly taskId: string;
  readonly op: QueuedOp;
  readonly commandId: string;
  readonly traceparent?: string | undefined;
}

/** Resolves with the position in the queue. Throws BusError; after `timeout` the queue may have stored the command. */
export async function publishCommand(
  bus: Bus,
  { tenant, agentId, taskId, op, commandId, traceparent }: QueueableCommand,
  body: Uint8Array,
  timeoutMs: number,
): Promise<number> {
  const subject = SUBJECTS.queue(tenant, agentId, taskId, op);
  const headers = traceparent === undefined ? {} : { traceparent };
  const hash = requestHash({ tenant, agent: agentId, task: taskId, op }, body);
  const messageId = queueMessageId(commandId, hash);
  return (await bus.publishDurable(subject, { body, headers }, { messageId, timeoutMs })).seq;
}

export class CommandQueue {
  readonly #clock: Clock;
  #isSilent = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `before`: why no writer took the command. */
  async add(
    bus: Bus,
    command: QueueableCommand,
    body: Uint8Array,
    end: number,
    before: DeliveryFailure,
  ): Promise<QueuedAnswer | DeliveryFailure> {
    const left = Math.max(ATTEMPT_MS_MIN, end - this.#clock.monotonic());
    const timeoutMs = Math.min(left, this.#isSilent ? SILENT_MS : QUEUE_MS);
    try {
      const position = await publishCommand(bus, command, body, timeoutMs);
      this.#isSilent = false;
      return { status: "queued", command_id: command.commandId, task_id: command.taskId, position };
    } catch (error) {
      if (!(error instanceof BusError)) throw error;
      this.#isSilent = true;
      // The writer may have carried the command out, so no later error may claim that nothing happened.
      if (before.sent) return before;
      if (!error.retryable) throw toFleetError(error);
      const failure = error.kind === "stream_full" ? queueFull(error) : toFleetError(error);
      return { error: failure, sent: failure.code === "TIMEOUT" };
    }
  }
}

function queueFull(cause: BusError): FleetError {
  return new FleetError("UNAVAILABLE", "no writer answers and the queue is full", {
    details: { bus: cause.kind },
    cause,
  });
}
