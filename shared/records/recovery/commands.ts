/** The command `recover`: an operator or orchestrator asks for an attempt. The watchdogs make it. */
import type { RecoverInput } from "../../lifecycle/input.ts";
import type { RecoverCommand } from "../../protocol/commands.ts";
import type { Tx } from "../../store/store.ts";
import { soundInTask } from "../checkpoint/lookup.ts";
import { readOpenHandoff } from "../handoff/record.ts";
import { begin, type CommandContext, complete, decided, type Replay } from "../task/command-transaction.ts";
import type { RememberedRecovery } from "../task/idempotency.ts";
import { ownerAliveUntil } from "./leases.ts";

/**
 * Throws NOT_FOUND for an unknown task or checkpoint and for a task without checkpoints, CORRUPT for a
 * corrupt checkpoint, CONFLICT for an ended task and, without `force`, for a living agent.
 */
export async function recoverTask(
  tx: Tx,
  context: CommandContext,
  command: RecoverCommand,
): Promise<RememberedRecovery | Replay> {
  const begun = await begin(tx, context, () => [], { supersedes: true });
  if ("replay" in begun) return begun;
  const { head: task, keys } = begun;
  const { policies, nowMs, actor } = context;
  const id = command.checkpoint_id ?? null;
  const input: RecoverInput = {
    commandId: context.commandId,
    choice: {
      checkpoint_id: id,
      to_agent_type: command.to_agent_type ?? null,
      reason: command.reason ?? null,
      by: actor.agent,
    },
    reset: command.reset,
    force: command.force,
    aliveUntilMs: task === null ? 0 : await ownerAliveUntil(tx, task, policies, nowMs),
  };
  const handoff = await readOpenHandoff(tx, keys, task);
  const decision = decided(context, { task, handoff }, { type: "recover", ...input });
  if (id !== null) await soundInTask(tx, keys, actor.task, id);
  const { task_id, fence } = decision.task;
  return complete(tx, context, begun, {
    transitions: decision.transitions,
    answer: { task_id, recovery: "waiting", checkpoint_id: id, fence, committed_at: decision.at },
  });
}
