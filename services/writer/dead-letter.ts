/**
 * Makes a dead letter of a command that cannot be applied: the letter, durably; the audit entry of a fenced
 * command; the alert. The message is acknowledged after all of them. A crash between two steps repeats the
 * earlier ones, which their message ids make harmless.
 */

import type { DurableMessage } from "../../shared/bus/bus.ts";
import { publishAlert } from "../../shared/bus/publish/publish-alert.ts";
import { requestHash } from "../../shared/integrity/request-hash.ts";
import { alertOf } from "../../shared/protocol/alerts.ts";
import { deadHeaders, deadReason, deadTask, deadTenant } from "../../shared/protocol/dead-letter.ts";
import type { FleetError } from "../../shared/protocol/errors.ts";
import { queuedTokens, STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import { principalActor } from "../../shared/records/audit/audit.ts";
import { asFleetError } from "../../shared/records/kv/store-errors.ts";
import type { ValidCommand } from "./commands.ts";
import type { WriterParts } from "./context.ts";

const PUBLISH_MS = 5_000;

/** The steps in their order. A failed step may be repeated. */
export function deadLetterSteps(
  context: WriterParts,
  refused: RefusedMessage,
): readonly (() => Promise<void>)[] {
  const { message, command, error } = refused;
  const { subject, seq, storedAt } = message;
  const dead: DeadCommand = {
    ...refused,
    // The same for every delivery. A recreated stream counts from 1 again, hence the time.
    name: `${STREAMS.queue}/${seq}/${storedAt}`,
    reason: deadReason(error),
    task: deadTask(subject),
  };
  return [
    () => storeLetter(context, dead),
    ...(command !== null && error.code === "FENCED" ? [() => auditRefusal(context, dead.name, command)] : []),
    () => raiseAlert(context, dead),
  ];
}

/** A queued message that was refused for good. */
export interface RefusedMessage {
  readonly message: DurableMessage;
  /** null: the message is not a valid command. */
  readonly command: ValidCommand | null;
  readonly commandId: string | null;
  readonly error: FleetError;
}

interface DeadCommand extends RefusedMessage {
  readonly name: string;
  readonly reason: string;
  readonly task: string;
}

async function storeLetter(
  { backgroundBus, clock, log, metrics }: WriterParts,
  dead: DeadCommand,
): Promise<void> {
  const { name, reason, task, message, commandId, error } = dead;
  const { subject, headers, body, seq, storedAt } = message;
  const letter = deadHeaders({
    subject,
    headers,
    sizeBytes: body.length,
    commandId,
    contentHash: dead.command === null ? null : requestHash(queuedTokens(subject), body),
    queuedAtMs: storedAt,
    deadAtMs: clock.now(),
    error,
  });
  const ack = await backgroundBus.publishDurable(
    SUBJECTS.dead(deadTenant(subject), STREAMS.queue, reason, task),
    { body, headers: letter },
    { messageId: name, timeoutMs: PUBLISH_MS },
  );
  if (ack.duplicate) return;
  metrics.queueDeadTotal.inc({ reason });
  const { agent } = queuedTokens(subject);
  const facts = { seq, letter: ack.seq, reason, agent_id: agent, task_id: task, command_id: commandId };
  log.warn({ ...facts, code: error.code, details: error.details }, "queued command became a dead letter");
}

async function auditRefusal(
  { repository, log }: WriterParts,
  occasion: string,
  { actor, id }: ValidCommand,
): Promise<void> {
  try {
    await repository.recordRefusal({
      ...actor,
      actor: principalActor(actor.agent),
      commandId: id,
      reason: "fenced",
      occasion,
    });
  } catch (error) {
    if (asFleetError(error).retryable) throw error;
    // A task with corrupt records accepts no more entries. The letter and the alert have the facts.
    log.error(
      { error, task_id: actor.task, command_id: id },
      "refusal could not be written to the audit trail",
    );
  }
}

async function raiseAlert(
  { backgroundBus: bus, clock, metrics, log }: WriterParts,
  dead: DeadCommand,
): Promise<void> {
  const { seq, storedAt, subject } = dead.message;
  const alert = alertOf("COMMAND_DEAD", "warning", {
    tenant: deadTenant(subject),
    task: dead.task,
    occasion: `${STREAMS.queue}-${seq}-${storedAt}`,
    nowMs: clock.now(),
    data: { stream: STREAMS.queue, reason: dead.reason, commandId: dead.commandId },
  });
  await publishAlert({ bus, metrics, log }, alert);
}
