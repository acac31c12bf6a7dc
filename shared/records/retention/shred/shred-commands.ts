/** The commands of shredding. What does not depend on the promises of the task is refused before they are read. */
import type { CommandInput } from "../../../lifecycle/input.ts";
import type { ShredPromise } from "../../../lifecycle/retention/shred.ts";
import type { TaskRecord } from "../../../lifecycle/task.ts";
import type {
  ShredApproveCommand,
  ShredCancelCommand,
  ShredRequestCommand,
} from "../../../protocol/shred.ts";
import type { Tx } from "../../../store/store.ts";
import {
  type Begun,
  begin,
  type CommandContext,
  complete,
  decided,
  type Replay,
} from "../../task/command-transaction.ts";
import type { RememberedShred } from "../../task/idempotency.ts";

type Answer = Promise<RememberedShred | Replay>;
/** The promise of a task with this head. Throws if it is not known. */
export type PromiseOf = (head: TaskRecord) => ShredPromise;

export async function requestShred(
  tx: Tx,
  context: CommandContext,
  command: ShredRequestCommand,
  promiseOf: PromiseOf,
): Answer {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const { reason, case: reference = null } = command;
  const inputWith = (promise: ShredPromise): CommandInput => ({
    type: "shred_request",
    ...{ reason, case: reference, promise },
  });
  return finish(tx, context, begun, withPromise(context, begun, inputWith, promiseOf));
}

export async function approveShred(
  tx: Tx,
  context: CommandContext,
  command: ShredApproveCommand,
  promiseOf: PromiseOf,
): Answer {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const { request_seq: requestSeq } = command;
  const inputWith = (promise: ShredPromise): CommandInput => ({ type: "shred_approve", requestSeq, promise });
  return finish(tx, context, begun, withPromise(context, begun, inputWith, promiseOf));
}

export async function cancelShred(tx: Tx, context: CommandContext, command: ShredCancelCommand): Answer {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  return finish(tx, context, begun, { type: "shred_cancel", requestSeq: command.request_seq });
}

/** Throws what refuses the command also without a promise: the checkpoints of the task are not read for that. */
function withPromise(
  context: CommandContext,
  { head }: Begun,
  inputWith: (promise: ShredPromise) => CommandInput,
  promiseOf: PromiseOf,
): CommandInput {
  decided(context, { task: head, handoff: null }, inputWith(null));
  return inputWith(head === null ? null : promiseOf(head));
}

function finish(tx: Tx, context: CommandContext, begun: Begun, input: CommandInput): Answer {
  const decision = decided(context, { task: begun.head, handoff: null }, input);
  const { task_id, shred = null } = decision.task;
  const answer = { task_id, shred, committed_at: decision.at };
  return complete(tx, context, begun, { transitions: decision.transitions, answer });
}
