/**
 * Puts commands in the queue and counts them. A command that the stream has acknowledged is on disk, and will
 * be applied once or become a dead letter. A full or unavailable queue is an error, never a loss.
 */
import type { Bus, Headers } from "../../shared/bus/bus.ts";
import { BusError } from "../../shared/bus/bus.ts";
import { queueMessageId } from "../../shared/integrity/request-hash.ts";
import type { QueuedAnswer } from "../../shared/protocol/answers.ts";
import { keptHeaders } from "../../shared/protocol/dead-letter.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import { isQueuedOp } from "../../shared/protocol/operations.ts";
import { STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import type { ValidCommand } from "./commands.ts";

const RETRY_MS = 1_000;

export interface RawCommand {
  readonly bytes: Uint8Array;
  readonly headers: Headers;
}

/** Throws UNAVAILABLE if the stream has certainly not stored the command, else TIMEOUT. */
export async function putIntoQueue(
  bus: Bus,
  command: ValidCommand,
  { bytes, headers }: RawCommand,
  timeoutMs: number,
): Promise<QueuedAnswer> {
  const { op, id, actor, hash } = command;
  if (!isQueuedOp(op)) {
    throw new FleetError("UNAVAILABLE", "the store is unavailable, and this command cannot be queued", {
      details: { op },
      retryAfterMs: RETRY_MS,
    });
  }
  const subject = SUBJECTS.queue(actor.tenant, actor.agent, actor.task, op);
  const out = { body: bytes, headers: keptHeaders(headers) };
  const options = { messageId: queueMessageId(id, hash), timeoutMs, refuseFull: true, isSharedId: true };
  try {
    const ack = await withSpan(
      "queue put",
      { "fleet.op": op },
      () => bus.publishDurable(subject, out, options),
      {
        kind: "producer",
      },
    );
    return {
      status: "queued",
      command_id: id,
      task_id: actor.task,
      ...((op === "create" || op === "mission_checkpoint") && { checkpoint_id: id }),
      ...(op === "handoff" && { handoff_id: id }),
      position: ack.seq,
    };
  } catch (error) {
    throw error instanceof BusError ? refusal(error) : error;
  }
}

function refusal(error: BusError): FleetError {
  const options = { details: { queue: error.kind }, cause: error };
  switch (error.kind) {
    case "stream_full":
      return new FleetError("UNAVAILABLE", "the store is unavailable and the queue is full", {
        ...options,
        retryAfterMs: RETRY_MS,
      });
    case "timeout":
      return new FleetError("TIMEOUT", "the store is unavailable and the queue did not answer", options);
    case "too_large":
      return new FleetError(
        "UNAVAILABLE",
        "the store is unavailable and the command is too large for the queue",
        options,
      );
    default:
      return new FleetError("UNAVAILABLE", "the store and the queue are unavailable", options);
  }
}

const RECENT_MS = 250;

/** The number of queued commands. null: the server does not answer. */
export interface Backlog {
  /** At most a moment old, because under load every command needs it. */
  recentCount(): Promise<number | null>;
  count(): Promise<number | null>;
}

export function createBacklog(bus: Bus, clock: Clock): Backlog {
  const count = (): Promise<number | null> =>
    bus
      .stream(STREAMS.queue)
      .state()
      .then(
        ({ messages }) => messages,
        () => null,
      );
  let recent: Promise<number | null> = Promise.resolve(null);
  let askedAt = Number.NEGATIVE_INFINITY;
  return {
    count,
    recentCount() {
      const now = clock.monotonic();
      if (now - askedAt >= RECENT_MS) {
        askedAt = now;
        recent = count();
      }
      return recent;
    },
  };
}
