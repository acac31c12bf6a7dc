/**
 * The results of commands. Each outcome is a success: the command is safe and is applied once. A failure is thrown; then nothing
 * happened, except after TIMEOUT, where that is unknown.
 */
import type { CommittedAnswer, HandoffAnswer, QueuedAnswer } from "../../protocol/answers.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { RedactedPart } from "../../protocol/redaction-report.ts";
import { type Camel, toCamel } from "../case-convert.ts";
import type { DeliveryAnswer, SpooledAnswer } from "../delivery/command-delivery.ts";

/** The command is applied: durable in the store, with its audit entry and event. */
export interface CommittedOutcome extends Omit<Camel<CommittedAnswer>, "status"> {
  readonly outcome: "committed";
}

interface PendingOutcome {
  readonly commandId: string;
  readonly taskId: string;
  /** Known before the command is applied, because a new checkpoint has the id of the command that creates it. */
  readonly checkpointId: string;
  readonly redacted?: readonly RedactedPart[];
}

/**
 * The store or the writer is unavailable. The command is durable in the queue and will be applied once, in order, or become a dead
 * letter with the reason.
 */
export interface QueuedOutcome extends PendingOutcome {
  readonly outcome: "queued";
  /** The position in the queue. */
  readonly position: number;
}

/**
 * The bus is unavailable. The command is on this machine's disk and goes into the queue, in order, when the bus is available again:
 * from this process or from the next one of the same agent.
 */
export interface SpooledOutcome extends PendingOutcome {
  readonly outcome: "spooled";
  /** The folder of the spool. */
  readonly spool: string;
}

/** The outcome together with the checkpoint as it is stored (seed 000 §5.1). */
export type WrittenCheckpoint =
  | (Checkpoint & Omit<CommittedOutcome, "checkpoint">)
  | QueuedOutcome
  | SpooledOutcome;

export type CheckpointOutcome = CommittedOutcome | QueuedOutcome | SpooledOutcome;

/** The state of a handoff after a command. */
export type HandoffChange = Omit<Camel<HandoffAnswer>, "status">;

/** A handoff has the id of the command that requests it, so the id is known before the command is applied. */
export type HandoffOutcome =
  | (HandoffChange & { readonly outcome: "committed" })
  | (Pick<HandoffChange, "commandId" | "taskId" | "handoffId" | "redacted"> & {
      readonly outcome: "queued" | "spooled";
    });

/** `checkpointId`: the checkpoint that the command changes; undefined for the one that it creates. */
export function checkpointOutcome(
  answer: DeliveryAnswer<"create" | "update" | "finalize" | "link">,
  checkpointId?: string,
): CheckpointOutcome {
  return answer.status === "committed" ? committedOutcome(answer) : pendingOutcome(answer, checkpointId);
}

/** Default of `checkpointId`: the command creates a checkpoint. */
export function pendingOutcome(
  answer: QueuedAnswer | SpooledAnswer,
  checkpointId = answer.command_id,
): QueuedOutcome | SpooledOutcome {
  const { redacted } = answer;
  const ids = {
    commandId: answer.command_id,
    taskId: answer.task_id,
    checkpointId,
    ...(redacted !== undefined && { redacted }),
  };
  return answer.status === "spooled"
    ? { outcome: "spooled", ...ids, spool: answer.spool }
    : { outcome: "queued", ...ids, position: answer.position };
}

export function committedOutcome({ status, ...committed }: CommittedAnswer): CommittedOutcome {
  return { ...(toCamel(committed) as Omit<CommittedOutcome, "outcome">), outcome: status };
}

export function handoffOutcome(answer: DeliveryAnswer<"handoff">): HandoffOutcome {
  if (answer.status === "committed") {
    const { status, ...committed } = answer;
    return { ...(toCamel(committed) as HandoffChange), outcome: status };
  }
  const { status, command_id: commandId, task_id: taskId, redacted } = answer;
  const ids = { commandId, taskId, handoffId: commandId };
  return { outcome: status, ...ids, ...(redacted !== undefined && { redacted }) };
}

/** The members of an answer in camelCase, without its status. */
export function resultOf<Answer extends { readonly status: string }>({
  status: _,
  ...rest
}: Answer): Omit<Camel<Answer>, "status"> {
  return toCamel(rest) as unknown as Omit<Camel<Answer>, "status">;
}

/**
 * Throws TIMEOUT for the failure to read what a command wrote, such as NOT_FOUND after its removal: any other code would say that the command did nothing.
 * Failures that are no FleetError, such as an abort, are thrown as they are.
 */
export const rethrowUnread =
  ({ commandId, checkpointId }: Pick<CommittedOutcome, "commandId" | "checkpointId">) =>
  (cause?: unknown): never => {
    if (cause !== undefined && !(cause instanceof FleetError)) throw cause;
    throw new FleetError("TIMEOUT", "the checkpoint is committed and cannot be read now", {
      details: { command_id: commandId, checkpoint_id: checkpointId },
      cause,
    });
  };
