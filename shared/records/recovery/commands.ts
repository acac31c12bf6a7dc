/**
 * What people and orchestrators do to recoveries: ask for one. A command like every other: whoever owns the task loses it, and the next
 * watchdog that looks makes the attempt. A task that is over is never restarted.
 */
import type { RecoverCommand } from "../../protocol/commands.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { RecoveryFailure } from "../../protocol/recovery-record.ts";
import { TASK_TABLE, type Task } from "../../protocol/task.ts";
import type { Tx } from "../../store/store.ts";
import { soundInTask } from "../checkpoint/lookup.ts";
import { cancel } from "../handoff/handoff-transitions.ts";
import { readOpen, write } from "../handoff/record.ts";
import { begin, type CommandContext, complete, type Replay } from "../task/command-transaction.ts";
import type { RememberedRecovery } from "../task/idempotency.ts";
import type { Step } from "../task/transitions.ts";
import { ownerAliveUntil } from "./leases.ts";
import { recoveryAfter, retry } from "./recovery-transitions.ts";

/**
 * Throws NOT_FOUND for a task or checkpoint that there is not, and for a task without any, CORRUPT for a checkpoint that does not verify, CONFLICT when the task is over
 * or, without `force`, when its agent lives.
 */
export async function recoverTask(
  tx: Tx,
  context: CommandContext,
  command: RecoverCommand,
): Promise<RememberedRecovery | Replay> {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const { head, keys } = begun;
  const { nowMs, actor } = context;
  if (head === null) {
    throw new FleetError("NOT_FOUND", "there is no such task", { details: { task_id: actor.task } });
  }
  if (TASK_TABLE[head.state].handoff === null || recoveryAfter(head, "retry") === null) {
    throw new FleetError("CONFLICT", "the task is over; a checkpoint written to it opens it again", {
      details: { task_id: actor.task, state: head.state },
    });
  }
  if (head.latest_id === null) {
    throw new FleetError("NOT_FOUND", "the task has no checkpoint to go on from", {
      details: { task_id: actor.task },
    });
  }
  if (!command.force) await requireGone(tx, head, context);
  const id = command.checkpoint_id ?? null;
  if (id !== null) await soundInTask(tx, keys, actor.task, id);
  const at = new Date(nowMs).toISOString();
  const open = await readOpen(tx, keys, head);
  const withdrawn: readonly Step[] =
    open === null
      ? []
      : write(tx, keys, cancel(head, open, { reason: "superseded", details: context.commandId }, at));
  const wish = {
    checkpoint_id: id,
    to_agent_type: command.to_agent_type ?? null,
    reason: command.reason ?? null,
    by: actor.agent,
  };
  const wanted = { wish, reset: command.reset, isProbe: false, failure: failureOf(head, at) };
  const step = retry(withdrawn.at(-1)?.head ?? head, wanted, nowMs);
  const { fence } = step.head;
  return complete(tx, context, begun, {
    steps: [...withdrawn, step],
    answer: { task_id: actor.task, recovery: "waiting", checkpoint_id: id, fence, committed_at: at },
  });
}

/** An agent that was heard, or has written, lately is not taken its task without a word. */
async function requireGone(tx: Tx, head: Task, { policies, nowMs }: CommandContext): Promise<void> {
  const { owner, fence } = head;
  const untilMs = await ownerAliveUntil(tx, head, policies, nowMs);
  if (untilMs <= nowMs) return;
  throw new FleetError("CONFLICT", "the task's agent lives; force takes the task from it", {
    details: { owner, fence, alive_until: new Date(untilMs).toISOString() },
  });
}

/** Who is deposed by it. */
function failureOf({ owner, agent_id, agent_type, fence }: Task, at: string): RecoveryFailure | null {
  if (owner === null) return null;
  return {
    class: "crash",
    signal: "request",
    agent_id: owner,
    agent_type: agent_id === owner ? agent_type : null,
    fence,
    details: null,
    resets_at: null,
    last_sign_at: null,
    noted_at: at,
  };
}
