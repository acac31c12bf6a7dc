/**
 * Burying a command that cannot be applied: the letter first, durably, then the audit entry of a fenced one, then the alert; the
 * message is acknowledged after all of them. A crash between two of them repeats the first, whose message ids make that harmless.
 */

import type { DurableMessage } from "../../shared/bus/bus.ts";
import { publishAlert } from "../../shared/bus/publish/publish-alert.ts";
import { requestHash } from "../../shared/integrity/request-hash.ts";
import { alertOf } from "../../shared/protocol/alerts.ts";
import { deadHeaders, deadReason, deadTask } from "../../shared/protocol/dead-letter.ts";
import type { FleetError } from "../../shared/protocol/errors.ts";
import { DEFAULT_TENANT, isToken } from "../../shared/protocol/ids.ts";
import { queuedTokens, STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import { asFleetError } from "../../shared/records/kv/store-errors.ts";
import type { ValidCommand } from "./commands.ts";
import type { WriterParts } from "./context.ts";

const PUBLISH_MS = 5_000;

/** The steps, in their order; each may be made again when it failed. */
export function burialOf(context: WriterParts, deceased: Deceased): readonly (() => Promise<void>)[] {
  const { message, command, error } = deceased;
  const { subject, seq, storedAt } = message;
  const loss: Loss = {
    ...deceased,
    // Of this delivery and of every later one; a stream made anew begins its places anew, hence the time.
    name: `${STREAMS.queue}/${seq}/${storedAt}`,
    reason: deadReason(error),
    task: deadTask(subject),
  };
  return [
    () => lettered(context, loss),
    ...(command !== null && error.code === "FENCED" ? [() => audited(context, loss.name, command)] : []),
    () => alerted(context, loss),
  ];
}

export interface Deceased {
  readonly message: DurableMessage;
  /** null: it has not the form of one. */
  readonly command: ValidCommand | null;
  readonly commandId: string | null;
  readonly error: FleetError;
}

interface Loss extends Deceased {
  readonly name: string;
  readonly reason: string;
  readonly task: string;
}

async function lettered({ backgroundBus, clock, log, metrics }: WriterParts, loss: Loss): Promise<void> {
  const { name, reason, task, message, commandId, error } = loss;
  const { subject, headers, body, seq, storedAt } = message;
  const letter = deadHeaders({
    subject,
    headers,
    sizeBytes: body.length,
    commandId,
    contentHash: loss.command === null ? null : requestHash(queuedTokens(subject), body),
    queuedAtMs: storedAt,
    deadAtMs: clock.now(),
    error,
  });
  const ack = await backgroundBus.publishDurable(
    SUBJECTS.dead(STREAMS.queue, reason, task),
    { body, headers: letter },
    { messageId: name, timeoutMs: PUBLISH_MS },
  );
  if (ack.duplicate) return;
  metrics.queueDeadTotal.inc({ reason });
  const { agent } = queuedTokens(subject);
  const facts = { seq, letter: ack.seq, reason, agent_id: agent, task_id: task, command_id: commandId };
  log.warn({ ...facts, code: error.code, details: error.details }, "queued command became a dead letter");
}

async function audited(
  { repository, log }: WriterParts,
  occasion: string,
  { actor, id }: ValidCommand,
): Promise<void> {
  try {
    await repository.recordRefusal({
      ...actor,
      actor: { id: actor.agent, type: "agent" },
      commandId: id,
      reason: "fenced",
      occasion,
    });
  } catch (error) {
    if (asFleetError(error).retryable) throw error;
    // A task whose records are damaged takes no entries any more; the letter and the alert say what there is to say.
    log.error(
      { error, task_id: actor.task, command_id: id },
      "refusal could not be put into the audit trail",
    );
  }
}

async function alerted({ backgroundBus: bus, clock, metrics, log }: WriterParts, loss: Loss): Promise<void> {
  const { seq, storedAt, subject } = loss.message;
  const { tenant } = queuedTokens(subject);
  const alert = alertOf("COMMAND_DEAD", "warning", {
    tenant: isToken(tenant) ? tenant : DEFAULT_TENANT,
    task: loss.task,
    occasion: `${STREAMS.queue}-${seq}-${storedAt}`,
    nowMs: clock.now(),
    data: { stream: STREAMS.queue, reason: loss.reason, commandId: loss.commandId },
  });
  await publishAlert({ bus, metrics, log }, alert);
}
