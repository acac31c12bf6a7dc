/**
 * One queued command: applied, or buried as a dead letter, or given back because this writer stops asking. Each step may be repeated
 * after a crash: applying finds its idempotency record, a burial its message ids. What the store cannot do now is tried until it can.
 */
import type { DurableMessage } from "../../shared/bus/bus.ts";
import { decodeBody, encodeBody } from "../../shared/integrity/wire.ts";
import type { CommandAnswer } from "../../shared/protocol/answers.ts";
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import { commandIdSchema } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import {
  HEADERS,
  isInboxOf,
  isQueuedOp,
  parseQueuedSubject,
  QUEUED_OPS,
} from "../../shared/protocol/subjects.ts";
import { asFleetError } from "../../shared/records/kv/store-errors.ts";
import { BreakerOpen } from "../../shared/runtime/breaker.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import { backoffMs } from "../../shared/runtime/retry.ts";
import type { ParseCommand, ValidCommand } from "./commands.ts";
import type { WriterParts } from "./context.ts";
import { burialOf } from "./dead-letter.ts";

/** Of faults that are ours: more tries would only hold up what waits behind. */
const FAULTS_MAX_TRIES = 5;
const PAUSE = { baseMs: 50, maxMs: 2_000 } as const;

export function createApplying(
  context: WriterParts,
): (message: DurableMessage, signal: AbortSignal) => Promise<void> {
  return (message, signal) =>
    withSpan("queue apply", { "messaging.message.id": message.seq }, () => settle(context, message, signal), {
      parent: message.headers,
      kind: "consumer",
    });
}

/** Resolves when the message may be acknowledged, or was given back. */
async function settle(context: WriterParts, message: DurableMessage, signal: AbortSignal): Promise<void> {
  const { clock, log, metrics } = context;
  let command: ValidCommand | null = null;
  try {
    command = read(context.parseCommand, message);
    const answer = await apply(context, command, signal);
    respond(context, command, message, answer);
    metrics.queueAppliedTotal.inc({ op: command.op });
    const { tenant, agent, task } = command.actor;
    const facts = { tenant, agent_id: agent, task_id: task, command_id: command.id, seq: message.seq };
    log.info({ ...facts, waited_ms: clock.now() - message.storedAt }, "queued command applied");
  } catch (error) {
    if (error instanceof GivenBack) return message.giveBack();
    const refusal = asFleetError(error);
    const steps = burialOf(context, {
      message,
      command,
      commandId: command?.id ?? idOf(message),
      error: refusal,
    });
    if (!(await done(context, message, steps, signal))) return message.giveBack();
    respond(context, command, message, { status: "error", error: refusal.toBody() });
  }
}

/** The writer stops asking before the command is settled. */
class GivenBack extends Error {}

function read(parseCommand: ParseCommand, message: DurableMessage): ValidCommand {
  const address = parseQueuedSubject(message.subject);
  if (!isQueuedOp(address.op)) throw invalid("op", `one of ${QUEUED_OPS.join(", ")}`, address.op);
  if (message.deliveries > LIMITS.queue_deliveries_max) {
    throw new FleetError("INTERNAL", "the command was delivered too often without coming to an end", {
      details: { deliveries: message.deliveries },
    });
  }
  const body = decodeBody(message.body, message.headers.get(HEADERS.contentType));
  return parseCommand(address, body, message.body);
}

/** Tries until the command is applied or refused for good; throws GivenBack when `signal` ends the trying. */
async function apply(
  context: WriterParts,
  command: ValidCommand,
  signal: AbortSignal,
): Promise<CommandAnswer> {
  const { breaker, clock, log } = context;
  for (let tries = 1, faults = 0; ; tries += 1) {
    if (signal.aborted) throw new GivenBack();
    try {
      return await breaker.run(() => command.apply(LIMITS.command_deadline_ms));
    } catch (error) {
      if (error instanceof BreakerOpen) {
        await breaker.closed(signal);
        continue;
      }
      const failure = asFleetError(error);
      if (failure.code === "INTERNAL") faults += 1;
      const isFinal = failure.code === "INTERNAL" ? faults >= FAULTS_MAX_TRIES : !failure.retryable;
      if (isFinal) throw failure;
      log.warn({ error, command_id: command.id, tries }, "queued command could not be applied yet");
    }
    await clock.sleep(backoffMs(tries, PAUSE), signal);
  }
}

/** The id of what has not the form of a command, where it names one all the same. */
function idOf(message: DurableMessage): string | null {
  try {
    const body = decodeBody(message.body, message.headers.get(HEADERS.contentType));
    return commandIdSchema.safeParse((body as { command_id?: unknown } | null)?.command_id).data ?? null;
  } catch {
    return null;
  }
}

/** Tries each step until it is done; false when `signal` ends the trying. */
async function done(
  { clock, log }: WriterParts,
  message: DurableMessage,
  steps: readonly (() => Promise<void>)[],
  signal: AbortSignal,
): Promise<boolean> {
  for (let step = 0, tries = 1; step < steps.length; ) {
    if (signal.aborted) return false;
    try {
      await steps[step]!();
      step += 1;
    } catch (error) {
      log.error({ error, seq: message.seq, tries }, "dead letter could not be written yet");
      await clock.sleep(backoffMs(tries, PAUSE), signal);
      tries += 1;
    }
  }
  return true;
}

/** To the caller's inbox, if it named one; to nobody else's, whatever the header says. */
function respond(
  { backgroundBus, log }: WriterParts,
  command: ValidCommand | null,
  message: DurableMessage,
  answer: object,
): void {
  const replyTo = message.headers.get(HEADERS.replyTo);
  if (replyTo === undefined || command === null) return;
  if (!isInboxOf(command.actor.agent, replyTo)) {
    log.warn({ agent_id: command.actor.agent, seq: message.seq }, "reply address is not the agent's own");
    return;
  }
  const contentType = message.headers.get(HEADERS.contentType);
  try {
    backgroundBus.publish(replyTo, {
      body: encodeBody(answer, contentType),
      ...(contentType !== undefined && { headers: { [HEADERS.contentType]: contentType } }),
    });
  } catch (error) {
    // Nobody has to hear it: whoever needs the answer asks again with the same command id.
    log.debug({ error, seq: message.seq }, "answer of a queued command could not be sent");
  }
}
