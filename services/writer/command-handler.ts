/**
 * Handles command requests: applies them, or puts them in the queue while the store is unavailable or the
 * command's predecessor is queued. Until the breaker opens, a command waits a bounded time for the store.
 * After that it is queued at once.
 *
 * Busy agents fill the queue faster than it empties. So while the queue is long and the store is available, a
 * command whose predecessor is queued is refused with a retry time. Otherwise a queue that grew during an
 * outage would never empty.
 *
 * While the disk of the store is full, commands are queued too, if the queue is on another disk, and refused otherwise.
 *
 * A command may be applied and queued, if the direct attempt did not end in time. Its idempotency record
 * makes that one effect. A repetition after an unknown outcome is refused for good only once no copy of it can be in
 * the queue or in flight to the store: that copy might be applied after the reason of the refusal has passed.
 */

import type { ServiceAnswer, ServiceRequest } from "../../shared/bus/request/endpoint.ts";
import type { CommandAnswer } from "../../shared/protocol/answers.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import { canPass } from "../../shared/protocol/lasting-refusal.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isQueuedOp } from "../../shared/protocol/operations.ts";
import { HEADERS, parseCommandSubject } from "../../shared/protocol/subjects.ts";
import { isStoreAway } from "../../shared/records/kv/store-errors.ts";
import { BreakerOpen } from "../../shared/runtime/breaker.ts";
import { requireSpace } from "../../shared/service-host/disk-full.ts";
import type { ValidCommand } from "./commands.ts";
import type { WriterParts } from "./context.ts";
import { type Backlog, putIntoQueue } from "./queue.ts";

/** With less time, the queue could not acknowledge. */
const PUT_MS_MIN = 100;

/**
 * How long a command waits for its queued predecessor. Without the wait, an agent that writes as soon as it
 * is answered would always find its last command in the queue, and never write directly again.
 */
const PREDECESSOR_MS = 150;
/** Retries of hundreds of agents would take the time in which a long queue empties, so they are rare. */
const LONG_QUEUE_RETRY_MS = 1_000;
/** A short queue empties soon. */
const SHORT_QUEUE_RETRY_MS = 200;

/** The reason to queue a command. */
interface QueueReason {
  readonly why: "store_away" | "after" | "disk_full";
  /** The direct attempt may still take effect. */
  readonly isOpen: boolean;
}

export function createCommandHandler(
  context: WriterParts,
): (request: ServiceRequest) => Promise<ServiceAnswer> {
  const { bus, backlog, parseCommand, clock, metrics, disk } = context;
  const applyDirectly = createDirectPath(context);

  return async (request) => {
    const begin = clock.monotonic();
    const command = parseCommand(parseCommandSubject(request.subject), request.body, request.bytes);
    const outcome = await applyDirectly(command).catch((error: unknown) =>
      applyRepeated(error, command, request),
    );
    if ("status" in outcome) {
      const { task_id, checkpoint_id, version, replayed, message_id, skipped_messages } = outcome;
      const ids = { ...idsOf(command), task_id, checkpoint_id, version, replayed };
      // Seed 002: the log names a message that is not delivered twice.
      return { value: outcome, facts: { ...ids, message_id, skipped_messages } };
    }
    if (outcome.why === "after" && (await isLong(backlog))) {
      throw refusal(
        command,
        LONG_QUEUE_RETRY_MS,
        "the queue is long and has a command that must be applied before this one",
      );
    }
    const leftMs = LIMITS.command_answer_ms_max - (clock.monotonic() - begin);
    const value = await enqueue(command, request, outcome, Math.max(PUT_MS_MIN, leftMs));
    metrics.queuePutTotal.inc({ why: outcome.why });
    const facts = { ...idsOf(command), task_id: value.task_id, why: outcome.why, position: value.position };
    return { value, outcome: "queued", facts };
  };

  /** The queue is empty before the second attempt, which then finds the record of a copy that was applied. */
  async function applyRepeated(
    refusal: unknown,
    command: ValidCommand,
    { headers }: ServiceRequest,
  ): Promise<CommandAnswer | QueueReason> {
    if (!canPass(refusal) || headers.get(HEADERS.repeated) === undefined) throw refusal;
    const settle = (final: unknown) => command.settle(final, LIMITS.command_answer_ms_max);
    if (!isQueuedOp(command.op)) return settle(refusal);
    if ((await backlog.count()) === 0) return applyDirectly(command).catch(settle);
    throw new FleetError("UNAVAILABLE", "the command is refused, and the queue may have a copy of it", {
      details: { refused: refusal.code },
      retryAfterMs: SHORT_QUEUE_RETRY_MS,
      cause: refusal,
    });
  }

  async function enqueue(
    command: ValidCommand,
    request: ServiceRequest,
    { why, isOpen }: QueueReason,
    timeoutMs: number,
  ) {
    try {
      command.check();
      if (why === "disk_full" && !isQueuedOp(command.op)) requireSpace(disk, "store");
      requireSpace(disk, "bus");
      return await putIntoQueue(bus, command, request, timeoutMs);
    } catch (error) {
      if (!isOpen || !(error instanceof FleetError)) throw error;
      // The direct attempt may have succeeded, so only TIMEOUT is true.
      throw new FleetError("TIMEOUT", "the store does not answer; the outcome is not known", {
        details: { ...error.details, queue_error: error.code },
        cause: error,
      });
    }
  }
}

/** Applies a command, or returns the reason to queue it. */
function createDirectPath({
  breaker,
  backlog,
  repository,
  disk,
}: WriterParts): (command: ValidCommand) => Promise<CommandAnswer | QueueReason> {
  const deadlineMs = LIMITS.command_answer_ms_max;
  const isApplied = ({ actor }: ValidCommand, id: string) =>
    repository.applied.isApplied(actor.tenant, id, deadlineMs);

  /** Whether a queued command must be applied first. Throws FENCED at once, because a fence never falls. */
  async function mustFollow(command: ValidCommand): Promise<boolean> {
    const { actor, after, fence } = command;
    if (after === undefined || (await isApplied(command, after))) return false;
    // A retry of an applied command gets its first answer again.
    if (await isApplied(command, command.id)) return false;
    await repository.requireNotSuperseded(actor, fence, deadlineMs);
    if (await isLong(backlog)) return true;
    return !(await repository.applied.isAppliedSoon(actor.tenant, after, PREDECESSOR_MS, deadlineMs));
  }

  const attemptInStore = (command: ValidCommand, { isOrdered }: { isOrdered: boolean }) =>
    breaker
      .run(async () => {
        if (disk.fullDisk("store") !== undefined && !(await isApplied(command, command.id)))
          return { why: "disk_full", isOpen: false } as const;
        if (isOrdered && (await mustFollow(command))) return { why: "after", isOpen: false } as const;
        return command.apply(deadlineMs);
      })
      .catch((error: unknown): QueueReason => {
        if (error instanceof BreakerOpen) return { why: "store_away", isOpen: error.begun };
        // A slow store with a closed breaker is overloaded, and the queue would add to its load.
        if (!isStoreAway(error)) throw error;
        return { why: "store_away", isOpen: (error as FleetError).code === "TIMEOUT" };
      });

  /** A signature waits for an identity provider, whose delay says nothing about the store, and is never queued. */
  const attempt = (command: ValidCommand, order: { isOrdered: boolean }) =>
    command.op === "signature_add" ? command.apply(deadlineMs) : attemptInStore(command, order);

  /**
   * A command that cannot be queued is refused until its predecessor has left the queue. Once the queue is
   * empty, a predecessor that was not applied is a dead letter, and the command is applied without it.
   */
  return async (command) => {
    const outcome = await attempt(command, { isOrdered: true });
    if ("status" in outcome || outcome.why !== "after" || isQueuedOp(command.op)) return outcome;
    if ((await backlog.count()) !== 0) {
      const retryMs = (await isLong(backlog)) ? LONG_QUEUE_RETRY_MS : SHORT_QUEUE_RETRY_MS;
      throw refusal(command, retryMs, "the queue has a command that must be applied before this one");
    }
    return attempt(command, { isOrdered: false });
  };
}

const isLong = async (backlog: Backlog): Promise<boolean> =>
  ((await backlog.recentCount()) ?? 0) > LIMITS.queue_long_count;

function refusal({ after }: ValidCommand, retryAfterMs: number, message: string): FleetError {
  return new FleetError("UNAVAILABLE", message, { details: { after }, retryAfterMs });
}

function idsOf({ actor, id, redactions }: ValidCommand) {
  const redacted = Object.values(redactions).reduce((sum, count) => sum + count, 0);
  const ids = { tenant: actor.tenant, agent_id: actor.agent, command_id: id };
  return { ...ids, ...(redacted > 0 && { redacted }) };
}
