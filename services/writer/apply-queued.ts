/**
 * Applies one queued command, or makes it a dead letter, or gives it back because this writer stops. A step
 * may be repeated after a crash: applying finds its idempotency record, a dead letter its message ids. While
 * the store is unavailable, the command is retried.
 */

import type { DurableMessage } from "../../shared/bus/bus.ts";
import { isConfirmation } from "../../shared/bus/publish/confirmation.ts";
import { decodeBody, encodeBody } from "../../shared/integrity/wire.ts";
import type { CommandAnswer } from "../../shared/protocol/answers.ts";
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import { commandIdSchema } from "../../shared/protocol/ids.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isQueuedOp, QUEUED_OPS } from "../../shared/protocol/operations.ts";
import { requireProtocol } from "../../shared/protocol/protocol-version.ts";
import { HEADERS, isInboxOf, parseQueuedSubject } from "../../shared/protocol/subjects.ts";
import { asFleetError } from "../../shared/records/kv/store-errors.ts";
import { BreakerOpen } from "../../shared/runtime/breaker.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import { backoffMs } from "../../shared/runtime/retry.ts";
import { requireSpace } from "../../shared/service-host/disk-full.ts";
import type { ParseCommand, ValidCommand } from "./commands.ts";
import type { WriterParts } from "./context.ts";
import { deadLetterSteps } from "./dead-letter.ts";

/** The limit of attempts for a fault of Fleet. More would only delay later commands. */
const FAULTS_MAX = 5;
const PAUSE = { baseMs: 50, maxMs: 2_000 } as const;

export function createQueuedHandler(
  context: WriterParts,
): (message: DurableMessage, signal: AbortSignal) => Promise<void> {
  return (message, signal) =>
    withSpan("queue apply", { "messaging.message.id": message.seq }, () => settle(context, message, signal), {
      parent: message.headers,
      kind: "consumer",
    });
}

/** Resolves when the message can be acknowledged, or was given back. */
async function settle(context: WriterParts, message: DurableMessage, signal: AbortSignal): Promise<void> {
  const { clock, log, metrics } = context;
  if (isConfirmation(message)) {
    // It is no command of any client, so operators need no letter and no alert.
    const { subject, seq } = message;
    return log.warn({ subject, seq }, "a confirmation of JetStream was dropped: a client made it a command");
  }
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
    if (error instanceof Stopped) return message.giveBack();
    const refusal = asFleetError(error);
    const steps = deadLetterSteps(context, {
      message,
      command,
      commandId: command?.id ?? idOf(message),
      error: refusal,
    });
    if (!(await runSteps(context, message, steps, signal))) return message.giveBack();
    respond(context, command, message, { status: "error", error: refusal.toBody() });
  }
}

/** The writer stops before the command is settled. */
class Stopped extends Error {}

function read(parseCommand: ParseCommand, message: DurableMessage): ValidCommand {
  const address = parseQueuedSubject(message.subject);
  if (!isQueuedOp(address.op)) throw invalid("op", `one of ${QUEUED_OPS.join(", ")}`, address.op);
  if (message.deliveries > LIMITS.queue_deliveries_max) {
    throw new FleetError("INTERNAL", "the command was delivered too often without being settled", {
      details: { deliveries: message.deliveries },
    });
  }
  requireProtocol(message.headers.get(HEADERS.protocol));
  const body = decodeBody(message.body, message.headers.get(HEADERS.contentType));
  return parseCommand(address, body, message.body);
}

/** Retries until the command is applied or refused for good. Throws Stopped when `signal` aborts. */
async function apply(
  context: WriterParts,
  command: ValidCommand,
  signal: AbortSignal,
): Promise<CommandAnswer> {
  const { breaker, clock, log, disk } = context;
  for (let tries = 1, faults = 0; ; tries += 1) {
    if (signal.aborted) throw new Stopped();
    try {
      requireSpace(disk, "store");
      // An attempt that its caller has made without the queue may be in flight.
      const settle = (refusal: unknown) => command.settle(refusal, LIMITS.command_deadline_ms);
      return await breaker.run(() => command.apply(LIMITS.command_deadline_ms).catch(settle));
    } catch (error) {
      if (error instanceof BreakerOpen) {
        await breaker.closed(signal);
        continue;
      }
      const failure = asFleetError(error);
      if (failure.code === "INTERNAL") faults += 1;
      const isFinal = failure.code === "INTERNAL" ? faults >= FAULTS_MAX : !failure.retryable;
      if (isFinal) throw failure;
      log.warn({ error, command_id: command.id, tries }, "queued command could not be applied yet");
    }
    await clock.sleep(backoffMs(tries, PAUSE), signal);
  }
}

/** The id in a body that is not a valid command. null: it has none. */
function idOf(message: DurableMessage): string | null {
  try {
    const body = decodeBody(message.body, message.headers.get(HEADERS.contentType));
    return commandIdSchema.safeParse((body as { command_id?: unknown } | null)?.command_id).data ?? null;
  } catch {
    return null;
  }
}

/** Retries each step until it succeeds. False: `signal` aborted before the last one. */
async function runSteps(
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

/** Sends the answer to the caller's inbox, if it named one. The header cannot name another caller's inbox. */
function respond(
  { backgroundBus, log }: WriterParts,
  command: ValidCommand | null,
  message: DurableMessage,
  answer: object,
): void {
  const replyTo = message.headers.get(HEADERS.replyTo);
  if (replyTo === undefined || command === null) return;
  const { tenant, agent } = command.actor;
  if (!isInboxOf({ tenant, caller: agent }, replyTo)) {
    log.warn({ tenant, agent_id: agent, seq: message.seq }, "reply address is not the caller's own");
    return;
  }
  const contentType = message.headers.get(HEADERS.contentType);
  try {
    backgroundBus.publish(replyTo, {
      body: encodeBody(answer, contentType),
      ...(contentType !== undefined && { headers: { [HEADERS.contentType]: contentType } }),
    });
  } catch (error) {
    // A caller that needs the answer asks again with the same command id.
    log.debug({ error, seq: message.seq }, "answer of a queued command could not be sent");
  }
}
