/**
 * The entrance of commands: into the store, or into the queue while the store is away or the command's predecessor still waits there.
 * Whoever comes first after the store went away waits a bounded time; when the breaker is open nobody waits.
 *
 * The queue empties more slowly than busy agents fill it. So while it is long and the store is well, a command whose predecessor waits
 * there is told to come again, or a queue that grew during an outage would never end.
 *
 * A command may go both ways, when the direct attempt did not end in time; its idempotency record makes that one effect.
 */

import type { ServiceAnswer, ServiceRequest } from "../../shared/bus/request/endpoint.ts";
import type { CommandAnswer } from "../../shared/protocol/answers.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isQueuedOp, parseCommandSubject } from "../../shared/protocol/subjects.ts";
import { isStoreAway } from "../../shared/records/kv/store-errors.ts";
import { BreakerOpen } from "../../shared/runtime/breaker.ts";
import type { ValidCommand } from "./commands.ts";
import type { WriterParts } from "./context.ts";
import { type Backlog, putIntoQueue } from "./queue.ts";

/** Less would only be a refusal that takes a detour. */
const PUT_MS_LEAST = 100;

/**
 * How long a command waits for the queued one that it goes behind. Without it, an agent that writes as fast as it is answered would
 * always come while its last command is still on its way through the queue, and would never leave the queue again.
 */
const BEHIND_MS = 150;
/** While the queue is long nobody waits here, and seldom asks: what hundreds of agents ask again and again takes the time in which it would empty. */
const BEHIND_RETRY_MS = 1_000;
/** Few wait in front of the queue, and it is not long. */
const IN_FRONT_RETRY_MS = 200;

/** Why a command goes into the queue. `isOpen`: the direct attempt may still have an effect. */
interface Detour {
  readonly why: "store_away" | "after";
  readonly isOpen: boolean;
}

export function createEntrance(context: WriterParts): (request: ServiceRequest) => Promise<ServiceAnswer> {
  const { bus, backlog, parseCommand, clock, metrics } = context;
  const direct = createDirect(context);

  return async (request) => {
    const begin = clock.monotonic();
    const command = parseCommand(parseCommandSubject(request.subject), request.body, request.bytes);
    const outcome = await direct(command);
    if ("status" in outcome) {
      const { task_id, checkpoint_id, version, replayed } = outcome;
      return { value: outcome, facts: { ...who(command), task_id, checkpoint_id, version, replayed } };
    }
    if (outcome.why === "after" && (await isLong(backlog))) {
      throw waiting(
        command,
        BEHIND_RETRY_MS,
        "the queue is long, and the command that this one follows is in it",
      );
    }
    const leftMs = LIMITS.command_answer_ms_max - (clock.monotonic() - begin);
    const value = await detour(command, request, outcome, Math.max(PUT_MS_LEAST, leftMs));
    metrics.queuePutTotal.inc({ why: outcome.why });
    const facts = { ...who(command), task_id: value.task_id, why: outcome.why, position: value.position };
    return { value, outcome: "queued", facts };
  };

  async function detour(
    command: ValidCommand,
    request: ServiceRequest,
    { isOpen }: Detour,
    timeoutMs: number,
  ) {
    try {
      command.check();
      return await putIntoQueue(bus, command, request, timeoutMs);
    } catch (error) {
      if (!isOpen || !(error instanceof FleetError)) throw error;
      // What the direct attempt came to is not known, so nothing but TIMEOUT would be true.
      throw new FleetError("TIMEOUT", "the store does not answer; the outcome is not known", {
        details: { ...error.details, queue_error: error.code },
        cause: error,
      });
    }
  }
}

/** Into the store, unless the store is away or the command goes behind a queued one. */
function createDirect({
  breaker,
  backlog,
  repository,
}: WriterParts): (command: ValidCommand) => Promise<CommandAnswer | Detour> {
  /** Whether it must wait behind a queued command. Throws FENCED: a fence never falls, so who is superseded is told now. */
  async function isBehind({ actor, after, fence, id }: ValidCommand): Promise<boolean> {
    const deadlineMs = LIMITS.command_answer_ms_max;
    const isApplied = (one: string) => repository.isApplied(actor.tenant, one, deadlineMs);
    if (after === undefined || (await isApplied(after))) return false;
    // A repetition gets its first answer again.
    if (await isApplied(id)) return false;
    await repository.requireNotSuperseded(actor, fence, deadlineMs);
    if (await isLong(backlog)) return true;
    return !(await repository.isAppliedSoon(actor.tenant, after, BEHIND_MS, deadlineMs));
  }

  const attempt = (command: ValidCommand, { isOrdered }: { isOrdered: boolean }) =>
    breaker
      .run(async () => {
        if (isOrdered && (await isBehind(command))) return { why: "after", isOpen: false } as const;
        return command.apply(LIMITS.command_answer_ms_max);
      })
      .catch((error: unknown): Detour => {
        if (error instanceof BreakerOpen) return { why: "store_away", isOpen: error.begun };
        // Late without the breaker having opened: there is more to do than the store can, and the queue would only add to it.
        if (!isStoreAway(error)) throw error;
        return { why: "store_away", isOpen: (error as FleetError).code === "TIMEOUT" };
      });

  /**
   * What cannot go behind its predecessor in the queue waits in front of it. When nothing lies there any more, a predecessor that was not
   * applied is a dead letter, and would keep whoever follows it waiting for ever.
   */
  return async (command) => {
    const outcome = await attempt(command, { isOrdered: true });
    if ("status" in outcome || outcome.why !== "after" || isQueuedOp(command.op)) return outcome;
    if ((await backlog.count()) !== 0) {
      const retryMs = (await isLong(backlog)) ? BEHIND_RETRY_MS : IN_FRONT_RETRY_MS;
      throw waiting(command, retryMs, "the command that this one follows is in the queue");
    }
    return attempt(command, { isOrdered: false });
  };
}

const isLong = async (backlog: Backlog): Promise<boolean> =>
  ((await backlog.recentCount()) ?? 0) > LIMITS.queue_long_count;

function waiting({ after }: ValidCommand, retryAfterMs: number, message: string): FleetError {
  return new FleetError("UNAVAILABLE", message, { details: { after }, retryAfterMs });
}

function who({ actor, id }: ValidCommand) {
  return { tenant: actor.tenant, agent_id: actor.agent, command_id: id };
}
